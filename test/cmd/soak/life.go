// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
	"github.com/http01-proxyd/http01-proxyd/test/support/rig"
)

// The pace of the life.
const (
	challengesPerHour = 10_000
	failoverEvery     = time.Minute
	reloadEvery       = time.Minute
	crashEvery        = 5 * time.Minute
	scrapeEvery       = time.Second // 15 times as often as Prometheus
	scrapeTimeout     = 10 * time.Second
	burst             = 16 // concurrent scrapes at the start: as many as the exporter serves
	burstScrapes      = 50 // of each
	checkEvery        = time.Minute

	// away is how long the other host has the VIPs at a failover.
	away = 5 * time.Second
	// recovery is how long after a failover or a crash a challenge may be lost: one that is
	// in flight when the process ends, or one on its way to a VIP that has just moved.
	recovery = 2 * time.Second

	samples     = 240 // of a run, at most one a second
	metricsPort = 9645
	parallel    = 20               // challenges in flight
	closeWithin = 30 * time.Second // after the end of the context

	// warmUp does not count: memory approaches its plateau exponentially, with a time constant
	// of 5 to 15 min in five runs. The live heap stays the same after two minutes, while stacks
	// and heap spread over more spans of the runtime. After warmUp, at most a seventh of the rise
	// is left. A run shorter than shortest has no verdict about growth.
	warmUp   = 30 * time.Minute
	shortest = time.Hour
)

// life is a running service and what happens to it.
type life struct {
	*rig.Rig
	*rig.Unit

	binary  string
	begin   time.Time
	excuses []window // only appended by failovers and crashes, which share a goroutine
	clients *rig.Clients
	counts  counts
}

// counts are how often something happened.
type counts struct{ failovers, reloads, crashes, scrapes, checks int }

// window is a time in which challenges may be lost.
type window struct{ from, to time.Time }

// live runs the service for a while.
func live(ctx context.Context, binary string, length time.Duration) (r result, err error) {
	network, err := rig.New(ctx, binary)
	if err != nil {
		return r, err
	}
	end := func(f func(context.Context) error) {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWithin)
		defer cancel()
		err = errors.Join(err, f(limited))
	}
	defer end(func(context.Context) error { return network.Close() })
	ingress, err := network.StartIngress(ctx)
	if err != nil {
		return r, err
	}
	defer ingress.Close()
	l := &life{Rig: network, binary: binary}
	if l.Unit, err = network.NewUnit(); err != nil {
		return r, err
	}
	defer end(l.Unit.Close)
	if err := l.start(ctx); err != nil {
		return r, err
	}
	l.clients = network.StartClients(ctx, vips(), challengesPerHour, time.Hour, parallel,
		func(netip.Addr) bool { return true })
	l.clients.Resume()
	r, err = l.run(ctx, length, newSampler())
	l.clients.Close()
	r.sent, r.lost = l.clients.Sent(), l.unexplained(l.clients.TakeFailures())
	r.counts = l.counts
	return r, err
}

// vips returns the VIPs of this life: one of each family.
func vips() []netip.Addr { return rig.APIVIPs()[:2] }

// start starts the service on the host with the VIPs.
func (l *life) start(ctx context.Context) error {
	api, ingress := vips(), rig.IngressVIPs()
	config := fmt.Sprintf("vips: {api: [%q, %q], ingress: [%q, %q]}\n"+
		"metrics: {listenAddress: \":%d\"}\nselfTest: {interval: 1m}\n", api[0], api[1], ingress[0], ingress[1], metricsPort)
	if err := os.WriteFile(l.config(), []byte(config), 0o600); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	if err := errors.Join(l.Start(), l.AwaitReady(ctx)); err != nil {
		return err
	}
	l.begin = time.Now()
	if err := l.arrive(); err != nil {
		return err
	}
	err := lab.Eventually(ctx, "Serving", func(ctx context.Context) error {
		s, err := l.Status(ctx)
		if reason := s.Condition().Reason; err == nil && reason != "Serving" {
			err = fmt.Errorf("the reason is %s", reason)
		}
		return err
	})
	if err != nil {
		return err
	}
	return l.scrapeBurst(ctx)
}

// scrapeBurst brings the exporter's heap to the size that many scrapes at once need. Without
// it, its RSS grew to about that size in two hours.
func (l *life) scrapeBurst(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for range burst {
		group.Go(func() error {
			for range burstScrapes {
				// The exporter ends connections that are silent for half a second.
				if err := lab.Eventually(ctx, "a scrape beside 15 others", l.scrape); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

func (l *life) config() string { return filepath.Join(l.Dir, "config.yaml") }

func (l *life) arrive() error {
	var err error
	for _, vip := range vips() {
		err = errors.Join(err, l.AddVIP(vip, 0, rig.Usable))
	}
	return err
}

func (l *life) leave() error {
	var err error
	for _, vip := range vips() {
		err = errors.Join(err, l.RemoveVIP(vip))
	}
	return err
}

// run lets events happen for a while and takes samples.
func (l *life) run(ctx context.Context, length time.Duration, s *sampler) (r result, err error) {
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	watch, err := l.Host.Start(lab.Command{
		Name: "status-watch", Path: l.binary,
		Args: []string{"status", "--watch", "-o", "json", "--status-socket", l.StatusSocket()},
	})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, watch.Kill(context.WithoutCancel(ctx))) }()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return l.events(ctx) })
	every := func(pause time.Duration, f func(context.Context) error) {
		group.Go(func() error { return repeat(ctx, pause, f) })
	}
	every(scrapeEvery, func(ctx context.Context) error {
		l.counts.scrapes++
		return l.scrape(ctx)
	})
	every(checkEvery, l.check)
	every(max(length/samples, time.Second), func(context.Context) error {
		// status --watch writes for ever: its log is not the service's journal.
		_ = os.Truncate(watch.Log, 0)
		return s.take(time.Since(l.begin), l)
	})
	err = group.Wait()
	r.series = s.list()
	if length >= shortest {
		r.warmUp = warmUp
	}
	return r, err
}

// repeat calls f at intervals until ctx ends.
func repeat(ctx context.Context, pause time.Duration, f func(context.Context) error) error {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := f(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// events has failovers, reloads and crashes happen one at a time.
func (l *life) events(ctx context.Context) error {
	failover, reload, crash := time.NewTicker(failoverEvery), time.NewTicker(reloadEvery), time.NewTicker(crashEvery)
	defer failover.Stop()
	defer reload.Stop()
	defer crash.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case from := <-failover.C:
			l.counts.failovers++
			err = l.failover(ctx)
			l.excuse(from)
		case <-reload.C:
			l.counts.reloads++
			rig.Signal(l.PID(), unix.SIGHUP)
		case from := <-crash.C:
			l.counts.crashes++
			rig.Signal(l.Child("proxy"), unix.SIGKILL)
			l.excuse(from)
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// excuse notes that challenges may be lost from a time on until recovery from now.
func (l *life) excuse(from time.Time) {
	l.excuses = append(l.excuses, window{from, time.Now().Add(recovery)})
}

func (l *life) failover(ctx context.Context) error {
	if err := l.leave(); err != nil {
		return err
	}
	select {
	case <-time.After(away):
	case <-ctx.Done():
	}
	return l.arrive()
}

// scrape reads the metrics as Prometheus does.
func (l *life) scrape(ctx context.Context) error {
	transport := &http.Transport{DisableKeepAlives: true, DialContext: l.Outside.Dial}
	client := http.Client{Timeout: scrapeTimeout, Transport: transport}
	url := fmt.Sprintf("http://%s/metrics", netip.AddrPortFrom(rig.HostAddress(), metricsPort))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("scrape: %w", err)
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("scrape: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if _, err := io.Copy(io.Discard, response.Body); err != nil || response.StatusCode != http.StatusOK {
		return fmt.Errorf("scrape: status %d: %w", response.StatusCode, err)
	}
	return nil
}

// check runs `check`. Its findings are about the small network: only its work counts.
func (l *life) check(ctx context.Context) error {
	l.counts.checks++
	_, _ = l.Host.Run(ctx, l.binary, "check", "-o", "json", "--config", l.config(), "--status-socket", l.StatusSocket())
	return nil
}

// unexplained returns the failures outside all windows.
func (l *life) unexplained(failures []rig.Failure) (lost []rig.Failure) {
	for _, f := range failures {
		excused := f.Aborted
		for _, w := range l.excuses {
			excused = excused || f.Start.Before(w.to) && f.End.After(w.from)
		}
		if !excused {
			lost = append(lost, f)
		}
	}
	return lost
}

// result is what a run has shown.
type result struct {
	series []Series
	warmUp time.Duration // 0 in a run without a verdict about growth
	counts counts
	sent   int64
	lost   []rig.Failure
}

func (r result) summary() string {
	return fmt.Sprintf("%d challenges, %d lost; %d failovers, %d reloads, "+
		"%d exits of the proxy process, %d scrapes, %d checks",
		r.sent, len(r.lost), r.counts.failovers, r.counts.reloads, r.counts.crashes, r.counts.scrapes, r.counts.checks)
}

// judge prints the slopes and returns what grows.
func (r result) judge() error {
	var errs []error
	verdict := r.warmUp > 0
	if !verdict {
		fmt.Printf("shorter than %v: no verdict about growth, because memory has not reached its plateau\n", shortest)
	}
	judged := 0
	for _, s := range r.series {
		if !s.Grows {
			judged++
		}
	}
	for _, s := range r.series {
		trend, known := s.After(r.warmUp.Hours()).Trend()
		note := ""
		switch {
		case !known:
			fmt.Printf("%-45s too few samples\n", s.Name)
			if verdict {
				errs = append(errs, fmt.Errorf("%s: too few samples", s.Name))
			}
			continue
		case s.Grows || !verdict:
		case trend.Growing(judged):
			errs = append(errs, fmt.Errorf("%s grows: %v %s", s.Name, trend, s.Unit))
		case trend.Growing(1):
			note = fmt.Sprintf(": above 0 for itself, and not as one of %d", judged)
		}
		fmt.Printf("%-45s %.4g %s, %v%s\n", s.Name, s.Value[len(s.Value)-1], s.Unit, trend, note)
	}
	for _, f := range r.lost {
		errs = append(errs, fmt.Errorf("lost: %v at %v after %v: %w",
			f.VIP, f.Start.Format(time.TimeOnly), f.End.Sub(f.Start), f.Err))
	}
	return errors.Join(errs...)
}
