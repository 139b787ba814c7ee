// SPDX-License-Identifier: Apache-2.0

package rehearsal

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"time"

	cmapi "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/http01-proxyd/http01-proxyd/test/rehearsal/cluster"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
	"github.com/http01-proxyd/http01-proxyd/test/support/steps"
)

// Scale requests many Certificates at once for names that resolve to the API VIPs, and
// injects faults until the last one is ready: VIPs that move, restarts of the service, and a
// crash of its proxy process.
type Scale struct {
	Rehearsal

	Certificates int // how many

	stores    []*lab.DescriptorStore // of each control-plane node
	progress  *progress
	stopWatch context.CancelFunc
	excuses   []period
}

// period is a time in which requests may fail.
type period struct {
	title      string
	begin, end time.Time
}

// Steps returns the steps in order.
func (s *Scale) Steps() []steps.Step {
	all := []steps.Step{
		{Title: "Bring the lab up", Run: s.up, Base: true},
		{Title: "Start etcd, kube-apiserver, cert-manager", Run: s.startAll, Base: true},
		{Title: fmt.Sprintf("Request %d Certificates", s.Certificates), Run: s.request, Base: true},
	}
	faults := []struct {
		title  string
		inject func(context.Context, *lab.ControlPlaneNode) error
	}{
		{"The VIPs move", s.moveVIPs},
		{"The service restarts", s.restartService},
		{"The proxy process is killed", s.killProxy},
		{"The VIPs move back", s.moveVIPsBack},
	}
	for i, f := range faults {
		after := s.Certificates * (i + 1) / (len(faults) + 1)
		all = append(all, steps.Step{Title: f.title, Base: true, Run: func(ctx context.Context) (string, error) {
			if err := s.progress.awaitReady(ctx, after); err != nil {
				return "", err
			}
			return s.inject(ctx, f.title, f.inject)
		}})
	}
	return append(all,
		steps.Step{Title: "All Certificates are ready", Base: true, Run: s.finish},
		steps.Step{Title: "Only faults have cost requests", Run: s.judge})
}

// Close ends the records and removes the cluster and the lab.
func (s *Scale) Close() error {
	var errs []error
	if s.stopWatch != nil {
		s.stopWatch()
	}
	for _, one := range s.stores {
		errs = append(errs, one.Close())
	}
	return errors.Join(append(errs, s.Rehearsal.Close())...)
}

// startAll starts the cluster and the service.
func (s *Scale) startAll(ctx context.Context) (string, error) {
	var err error
	if s.cluster, err = cluster.Start(ctx, s.lab, s.Programs); err != nil {
		return "", err
	}
	// cert-manager can replace a CertificateRequest by another one of the same name. The Order
	// of the deleted one has the name that the other one needs, and cert-manager waits until it
	// is deleted (pkg/controller/certificaterequests/acme, "found Order resource not owned").
	s.cluster.CollectGarbage()
	for _, m := range s.lab.ControlPlane {
		s.stores = append(s.stores, &lab.DescriptorStore{})
		s.services = append(s.services, nil)
		if err := s.startService(ctx, m); err != nil {
			return "", err
		}
	}
	holder, err := s.holder(ctx)
	if err != nil {
		return "", err
	}
	return holder.Name + " serves", s.cluster.CreateIssuer(ctx, issuerName, nil)
}

// startService starts the service on a node, or its next process after a restart. It accepts
// challenges for any name: by default, only for the API's name.
func (s *Scale) startService(ctx context.Context, m *lab.ControlPlaneNode) (err error) {
	o := lab.ServiceOptions{Binary: s.Binary, Config: s.config(m, "hosts: [\"*\"]\n"), Store: s.stores[m.Index]}
	s.services[m.Index], err = m.StartService(ctx, o)
	return err
}

// request starts the records and creates the Certificates.
func (s *Scale) request(ctx context.Context) (string, error) {
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stopWatch = stop
	var err error
	if s.progress, err = watchProgress(watching, s.cluster); err != nil {
		return "", err
	}
	hostname := func(i int) string { return fmt.Sprintf("scale-%03d.%s", i, s.lab.Domain) }
	for i := range s.Certificates {
		if err := s.lab.Internet.SetName(ctx, hostname(i), s.lab.API); err != nil {
			return "", err
		}
	}
	s.began = time.Now()
	client := s.cluster.CertManager.CertmanagerV1().Certificates(cluster.ConfigNamespace)
	for i := range s.Certificates {
		name := fmt.Sprintf("scale-%03d", i)
		crt := &cmapi.Certificate{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: certificateSpec(name, issuerName,
			hostname(i))}
		if _, err := client.Create(ctx, crt, metav1.CreateOptions{}); err != nil {
			return "", fmt.Errorf("create a Certificate: %w", err)
		}
	}
	return fmt.Sprintf("for names that resolve to %v", s.lab.API.Both()), nil
}

// faultLimit bounds the time from a fault until the clients reach the VIPs: the election of a
// VRRP master, keepalived's garp_master_delay, and a margin that a slow machine keeps.
const faultLimit = 45 * time.Second

// inject injects a fault on the node that holds the VIPs and waits until clients are served.
func (s *Scale) inject(ctx context.Context, title string, do func(context.Context, *lab.ControlPlaneNode) error) (
	string, error,
) {
	holder, err := s.holder(ctx)
	if err != nil {
		return "", err
	}
	begin := time.Now()
	if err := do(ctx, holder); err != nil {
		return "", err
	}
	next, err := s.holder(ctx)
	if err != nil {
		return "", err
	}
	serves := time.Since(begin)
	if err := s.awaitReachable(ctx); err != nil {
		return "", err
	}
	took := time.Since(begin)
	if took > faultLimit {
		return "", fmt.Errorf("the clients reached the VIPs only %.2f s after the fault, want at most %v", took.Seconds(),
			faultLimit)
	}
	s.excuses = append(s.excuses, period{title, begin, begin.Add(took)})
	return fmt.Sprintf("on %s; %s serves after %.2f s, and the clients reach it after %.2f s", holder.Name, next.Name,
		serves.Seconds(), took.Seconds()), nil
}

// awaitReachable waits until the clients reach the VIPs. If two nodes were VRRP master for a
// moment, a router can have the wrong neighbour for a while.
func (s *Scale) awaitReachable(ctx context.Context) error {
	dials, ctx := errgroup.WithContext(ctx)
	for _, client := range []*lab.Node{s.lab.Pods[0], s.lab.Internet.Node} {
		for _, vip := range s.lab.API.Both() {
			dials.Go(func() error {
				return lab.Eventually(ctx, fmt.Sprintf("a connection of %s to %v", client.Name, vip),
					func(ctx context.Context) error {
						// TCP sends a lost SYN again after 1, 3, 7 and 15 s.
						ctx, cancel := context.WithTimeout(ctx, time.Second)
						defer cancel()
						conn, err := client.Dial(ctx, "tcp", netip.AddrPortFrom(vip, cluster.BalancerPort).String())
						if err != nil {
							return err
						}
						return conn.Close()
					})
			})
		}
	}
	return dials.Wait()
}

// moveVIPs stops keepalived on the node that holds the VIPs.
func (s *Scale) moveVIPs(ctx context.Context, holder *lab.ControlPlaneNode) error {
	if err := holder.StopKeepalived(ctx); err != nil {
		return err
	}
	return s.lab.AwaitVIPs(ctx)
}

// moveVIPsBack starts keepalived on the node that it prefers.
func (s *Scale) moveVIPsBack(ctx context.Context, _ *lab.ControlPlaneNode) error {
	if err := s.lab.ControlPlane[0].StartKeepalived(ctx); err != nil {
		return err
	}
	return s.lab.AwaitVIPs(ctx)
}

// restartService restarts the service as `systemctl restart` does.
func (s *Scale) restartService(ctx context.Context, holder *lab.ControlPlaneNode) error {
	if err := s.services[holder.Index].Stop(ctx); err != nil {
		return err
	}
	return s.startService(ctx, holder)
}

// killProxy kills the proxy process and waits for the next one.
func (s *Scale) killProxy(ctx context.Context, holder *lab.ControlPlaneNode) error {
	service := s.services[holder.Index]
	killed, err := service.Child("proxy")
	if err != nil {
		return err
	}
	if err := unix.Kill(killed, unix.SIGKILL); err != nil {
		return fmt.Errorf("kill the proxy process: %w", err)
	}
	return lab.Eventually(ctx, "the next proxy process", func(context.Context) error {
		next, err := service.Child("proxy")
		if err == nil && next == killed {
			err = errors.New("the killed one is still there")
		}
		return err
	})
}

// finish waits for the last Certificate, then stops the services: their journals end.
func (s *Scale) finish(ctx context.Context) (string, error) {
	if err := s.progress.awaitReady(ctx, s.Certificates); err != nil {
		return "", err
	}
	took := time.Since(s.began)
	for _, one := range s.services {
		if err := one.Stop(ctx); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%.0f s after the first request", took.Seconds()), nil
}

var (
	// vipMove is the journal's line about a VIP that has arrived or left.
	vipMove = regexp.MustCompile(`(?m)^time=(\S+) .* event=vip-(?:gained|lost) vip=\S+`)
	// rejected is a reason in the journal's summary of rejected requests.
	rejected = regexp.MustCompile(` rejected_([a-z_]+)=[0-9]+`)
)

// settleTime is how long a fault can cost requests. A client that has begun one before its end
// gives up after 15 s, and a neighbour has the wrong node for 5 s.
const settleTime = 30 * time.Second

// judge expects that each failed self check and each failed validation belongs to a fault or to
// a move of a VIP: on a busy machine, another node can become VRRP master for a moment. Of a
// VIP that leaves, the services can reject connections without a request, and nothing else.
func (s *Scale) judge(context.Context) (string, error) {
	var errs []error
	for _, m := range s.lab.ControlPlane {
		log, err := os.ReadFile(s.services[m.Index].Log)
		if err != nil {
			return "", fmt.Errorf("read the service's log: %w", err)
		}
		for _, match := range vipMove.FindAllSubmatch(log, -1) {
			at, err := time.Parse(time.RFC3339Nano, string(match[1]))
			if err != nil {
				return "", fmt.Errorf("read the service's log: %w", err)
			}
			s.excuses = append(s.excuses, period{"a VIP moves", at, at})
		}
		for _, reason := range rejected.FindAllSubmatch(log, -1) {
			if name := string(reason[1]); name != "head_timeout" && name != "client_gone" {
				errs = append(errs, fmt.Errorf("%s has rejected requests: %s", m.Name, name))
			}
		}
	}
	checks, err := selfChecks(s.certManagerLog(), "")
	if err != nil {
		return "", err
	}
	byStatus := map[int]int{} // 0: no response
	for _, c := range checks {
		byStatus[c.status]++
		if c.status != 200 && c.status != 503 && !s.excused(c.at) { // 503: no route yet
			errs = append(errs, fmt.Errorf("no fault explains the self check at %s: status %d", c.at.Format(clock), c.status))
		}
	}
	invalid := s.progress.invalidations()
	for _, i := range invalid {
		if !s.excused(i.at) {
			errs = append(errs, fmt.Errorf("no fault explains the invalid Challenge at %s: %s", i.at.Format(clock), i.text))
		}
	}
	var faults strings.Builder
	for _, e := range s.excuses {
		fmt.Fprintf(&faults, "%s, %s to %s\n", e.title, e.begin.Format(clock), e.end.Format(clock))
	}
	if err := errors.Join(errs...); err != nil {
		return "", fmt.Errorf("%s%w", faults.String(), err)
	}
	return fmt.Sprintf("self checks by status: %v; %d validations failed because of a fault\n%s", byStatus, len(invalid),
		faults.String()), nil
}

// clock is the layout of times in messages.
const clock = "15:04:05.000"

func (s *Scale) excused(at time.Time) bool {
	for _, e := range s.excuses {
		if at.After(e.begin.Add(-settleTime/2)) && at.Before(e.end.Add(settleTime)) {
			return true
		}
	}
	return false
}
