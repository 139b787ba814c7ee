// SPDX-License-Identifier: Apache-2.0

package rehearsal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	cmapi "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
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
	Twice        int // how many names have two of them

	stores   []*lab.DescriptorStore // of each control-plane node
	ended    []*lab.Service         // those that a restart has replaced
	progress *progress
	capture  capture
	faults   []fault

	endCapture func() error
	stopWatch  context.CancelFunc
	footprint  func() lab.Footprint // ends the samples and returns the maximum

	mu   sync.Mutex
	pids map[int]int // process ID of each node's service
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
		inject func(context.Context, *fault) error
	}{
		{"The VIPs move", s.moveVIPs},
		{"The service restarts", s.restartService},
		{"The VIPs move again", s.moveVIPs},
		{"The proxy process is killed", s.killProxy},
		{"The service restarts again", s.restartService},
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
		steps.Step{Title: "Nothing refused, nothing lost", Run: s.judge})
}

// Close ends the records and removes the cluster and the lab.
func (s *Scale) Close() error {
	var errs []error
	if s.stopWatch != nil {
		s.stopWatch()
	}
	if s.endCapture != nil {
		errs = append(errs, s.endCapture())
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
	s.pids = map[int]int{}
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

// startService starts the service on a node, or its next process after a restart.
func (s *Scale) startService(ctx context.Context, m *lab.ControlPlaneNode) error {
	one, err := m.StartService(ctx, lab.ServiceOptions{Binary: s.Binary, Config: s.config(m, ""), Store: s.stores[m.Index]})
	if err != nil {
		return err
	}
	s.services[m.Index] = one
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pids[m.Index] = one.PID()
	return nil
}

// processes returns the process ID of each node's service.
func (s *Scale) processes() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.pids))
}

// request starts the records and creates the Certificates.
func (s *Scale) request(ctx context.Context) (string, error) {
	var err error
	if s.endCapture, err = s.capture.start(context.WithoutCancel(ctx), s.lab.Pods[0], s.lab.Internet.Node); err != nil {
		return "", err
	}
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stopWatch = stop
	if s.progress, err = watchProgress(watching, s.cluster); err != nil {
		return "", err
	}
	s.footprint = s.sampleFootprint(watching)
	names := s.Certificates - s.Twice
	for i := range names {
		if err := s.lab.Internet.SetName(ctx, s.hostname(i), s.lab.API); err != nil {
			return "", err
		}
	}
	s.began = time.Now()
	for i := range s.Certificates {
		certificate := fmt.Sprintf("scale-%03d", i)
		_, err := s.cluster.CertManager.CertmanagerV1().Certificates(cluster.ConfigNamespace).Create(ctx, &cmapi.Certificate{
			ObjectMeta: metav1.ObjectMeta{Name: certificate},
			Spec: cmapi.CertificateSpec{
				SecretName: certificate, DNSNames: []string{s.hostname(i % names)},
				PrivateKey: &cmapi.CertificatePrivateKey{Algorithm: cmapi.ECDSAKeyAlgorithm, Size: 256, RotationPolicy: cmapi.RotationPolicyAlways},
				IssuerRef:  cmmeta.IssuerReference{Kind: cmapi.ClusterIssuerKind, Name: issuerName, Group: "cert-manager.io"},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			return "", fmt.Errorf("create a Certificate: %w", err)
		}
	}
	return fmt.Sprintf("for %d names that resolve to %v, %d of them twice", names, s.lab.API.Both(), s.Twice), nil
}

func (s *Scale) hostname(i int) string { return fmt.Sprintf("scale-%03d.%s", i, s.lab.Domain) }

// faultLimit bounds the time from a fault until the clients reach the VIPs: the election of a
// VRRP master, garpDelay, and a margin that a slow machine keeps.
const faultLimit = 45 * time.Second

// inject injects a fault on the node that holds the VIPs and waits until clients are served.
func (s *Scale) inject(ctx context.Context, title string, do func(context.Context, *fault) error) (string, error) {
	holder, err := s.holder(ctx)
	if err != nil {
		return "", err
	}
	f := fault{title: title, node: holder, begin: time.Now()}
	if err := do(ctx, &f); err != nil {
		return "", err
	}
	next, err := s.holder(ctx)
	if err != nil {
		return "", err
	}
	serves := time.Since(f.begin)
	if err := s.awaitReachable(ctx); err != nil {
		return "", err
	}
	f.next, f.end = next, time.Now()
	s.faults = append(s.faults, f)
	if took := f.end.Sub(f.begin); took > faultLimit {
		return "", fmt.Errorf("the clients reached the VIPs only %.2f s after the fault, want at most %v: %v", took.Seconds(), faultLimit, f)
	}
	ready, challenges := s.progress.counts()
	return fmt.Sprintf("on %s; %s serves after %.2f s, and the clients reach it after %.2f s; %d Certificates are ready, %d Challenges in progress",
		f.node.Name, next.Name, serves.Seconds(), f.end.Sub(f.begin).Seconds(), ready, challenges), nil
}

// awaitReachable waits until the clients reach the VIPs. If two nodes were VRRP master for a
// moment, a router can have the wrong neighbour for garpDelay.
func (s *Scale) awaitReachable(ctx context.Context) error {
	dials, ctx := errgroup.WithContext(ctx)
	for _, client := range []*lab.Node{s.lab.Pods[0], s.lab.Internet.Node} {
		for _, vip := range s.lab.API.Both() {
			dials.Go(func() error {
				return lab.Eventually(ctx, fmt.Sprintf("a connection of %s to %v", client.Name, vip), func(ctx context.Context) error {
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
func (s *Scale) moveVIPs(ctx context.Context, f *fault) error {
	if err := f.node.StopKeepalived(ctx); err != nil {
		return err
	}
	return s.lab.AwaitVIPs(ctx)
}

// moveVIPsBack starts keepalived on the node that it prefers.
func (s *Scale) moveVIPsBack(ctx context.Context, _ *fault) error {
	if err := s.lab.ControlPlane[0].StartKeepalived(ctx); err != nil {
		return err
	}
	return s.lab.AwaitVIPs(ctx)
}

// restartService restarts the service as `systemctl restart` does.
func (s *Scale) restartService(ctx context.Context, f *fault) error {
	one := s.services[f.node.Index]
	if err := one.Stop(ctx); err != nil {
		return err
	}
	s.ended = append(s.ended, one)
	return s.startService(ctx, f.node)
}

// killProxy kills the proxy process and waits for the next one.
func (s *Scale) killProxy(ctx context.Context, f *fault) error {
	service := s.services[f.node.Index]
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

// sampleFootprint samples the memory of each node's service until the returned function is
// called. It returns the maximum of one service.
func (s *Scale) sampleFootprint(ctx context.Context) func() lab.Footprint {
	ctx, stop := context.WithCancel(ctx)
	var sampler sync.WaitGroup
	var most lab.Footprint
	sampler.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for ctx.Err() == nil {
			for _, pid := range s.processes() {
				// A service that has just ended has none.
				if now, err := lab.FootprintOf(pid); err == nil && now.PSS > most.PSS {
					most = now
				}
			}
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	})
	return func() lab.Footprint {
		stop()
		sampler.Wait()
		return most
	}
}

// finish waits for the last Certificate, then stops the services: their journals end.
func (s *Scale) finish(ctx context.Context) (string, error) {
	if err := s.progress.awaitReady(ctx, s.Certificates); err != nil {
		return "", fmt.Errorf("faults:\n%v\n%w", s.faults, err)
	}
	took := time.Since(s.began)
	if err := s.progress.awaitNoChallenge(ctx); err != nil {
		return "", err
	}
	for _, one := range s.services {
		if err := one.Stop(ctx); err != nil {
			return "", err
		}
	}
	s.ended = append(s.ended, s.services...)
	most, violations := s.progress.schedule()
	if len(violations) > 0 {
		return "", fmt.Errorf("cert-manager's scheduler: %s", strings.Join(violations, "\n"))
	}
	return fmt.Sprintf("%.0f s after the first request; at most %d of %d Challenges in progress, never two for one name",
		took.Seconds(), most, maxChallenges), nil
}
