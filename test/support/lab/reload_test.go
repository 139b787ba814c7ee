// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestPortChange changes the service's port during a challenge. It completes, new ones use
// the new port, and the old port is closed.
func TestPortChange(t *testing.T) {
	l, _ := cluster(t)
	master := l.ControlPlane[0].Node
	next := master.DefaultConfig() + "mode: CustomDeployment\ncustomDeployment: {internalPort: 9888}\n"
	tests := []struct {
		name   string
		reload func(t *testing.T, s *Service)
	}{
		{"by the file alone", func(*testing.T, *Service) {}},
		{"with SIGHUP", reload},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := start(t, master, ServiceOptions{})
			host := publishName(t, l, "moved", l.API)
			slow := startSlowBackend(t, l, host)
			inFlight := sendChallenges(t, l, host, slow)
			must(t, master.WriteConfig(next))
			tt.reload(t, s)
			_, err := s.Await(t.Context(), "the table with port 9888", func(seen Status) error {
				if seen.Table.Port != 9888 || seen.Condition().Reason != "Serving" {
					return fmt.Errorf("port %d, %s: %s", seen.Table.Port, seen.Condition().Reason, seen.Condition().Message)
				}
				return nil
			})
			must(t, err)
			inFlight = append(inFlight, sendChallenges(t, l, host, slow)...)
			close(slow.release)
			for _, r := range inFlight {
				(<-r).expectComplete(t)
			}
			awaitPortClosed(t, master, 8888)
		})
	}
}

// sendChallenges starts one challenge over each family.
func sendChallenges(t *testing.T, l *Lab, host string, slow *slowBackend) []<-chan challengeReply {
	t.Helper()
	var inFlight []<-chan challengeReply
	for _, vip := range l.API.Both() {
		inFlight = append(inFlight, sendChallenge(t, l, vip, host))
		slow.awaitRequest(t)
	}
	return inFlight
}

// awaitPortClosed waits until no process listens on a port of a node.
func awaitPortClosed(t *testing.T, n *Node, port int) {
	t.Helper()
	must(t, Eventually(t.Context(), fmt.Sprintf("port %d given up", port), func(ctx context.Context) error {
		out, err := n.Run(ctx, "ss", "-Hltn", "sport", "=", fmt.Sprintf(":%d", port))
		if err == nil && strings.TrimSpace(out) != "" {
			err = errors.New(out)
		}
		return err
	}))
}

// TestReloadSignal holds that SIGHUP is answered as systemd requires: RELOADING=1 with its
// time, then READY=1.
func TestReloadSignal(t *testing.T) {
	l, _ := cluster(t)
	s := start(t, l.ControlPlane[0].Node, ServiceOptions{})
	reload(t, s)
	all := s.Notifications.All()
	at := slices.Index(all, "RELOADING=1")
	stamped := slices.IndexFunc(all, func(line string) bool { return strings.HasPrefix(line, "MONOTONIC_USEC=") })
	ready := len(all) - 1 - slices.Index(reversed(all), "READY=1")
	if at < 0 || stamped < 0 || ready < at {
		t.Errorf("notifications: %q", all)
	}
	awaitReason(t, s, "Serving")
}

func reversed(lines []string) []string {
	out := slices.Clone(lines)
	slices.Reverse(out)
	return out
}

// reload sends SIGHUP and waits until the service has reloaded everything.
func reload(t *testing.T, s *Service) {
	t.Helper()
	before := s.Notifications.Count("READY=1")
	must(t, s.Reload())
	must(t, Eventually(t.Context(), "READY=1 after SIGHUP", func(context.Context) error {
		if err := s.Alive(); err != nil {
			return err
		}
		if s.Notifications.Count("READY=1") == before {
			return fmt.Errorf("so far: %q", s.Notifications.All())
		}
		return nil
	}))
}

// TestInvalidConfig holds that an invalid configuration does not stop a working service,
// and that its message has line and column.
func TestInvalidConfig(t *testing.T) {
	l, _ := cluster(t)
	master := l.ControlPlane[0].Node
	s := start(t, master, ServiceOptions{})
	name := publishName(t, l, "invalid", l.API)
	bad := master.DefaultConfig() + "hots: [api.lab.test]\nlimits: {headBytes: many}\n"
	must(t, master.WriteConfig(bad))
	seen := awaitReason(t, s, "InvalidConfig")
	for _, place := range []string{"config.yaml:4:1", "config.yaml:5:"} {
		if !strings.Contains(seen.Condition().Message, place) {
			t.Errorf("no %s in the message: %s", place, seen.Condition().Message)
		}
	}
	if c := seen.Condition(); c.Status != "False" || c.Type != "HTTP01ChallengeProxyReady" || seen.Config.Error == "" {
		t.Errorf("condition %+v, configuration %+v", seen.Condition(), seen.Config)
	}
	must(t, Eventually(t.Context(), "STATUS= of the state", statusBegins(s, "InvalidConfig")))
	orderCertificate(t, l, name, l.Pods[0])

	t.Run("start with the last accepted one", func(t *testing.T) {
		stop(t, s)
		again := start(t, master, ServiceOptions{Keep: true})
		seen := awaitReason(t, again, "InvalidConfig")
		if seen.Config.Source != "last-accepted" || seen.VIPState(l.API.V4.String()) != "Held" {
			t.Errorf("status: %+v", seen)
		}
		orderCertificate(t, l, name, l.Pods[0])
		must(t, master.WriteConfig(master.DefaultConfig()))
		seen = awaitReason(t, again, "Serving")
		if seen.Config.Source != "file" || seen.Config.Error != "" {
			t.Errorf("corrected, but %+v", seen.Config)
		}
	})
}

// TestInvalidConfigAtFirstStart holds that the process stays up without a table and loads
// the corrected file.
func TestInvalidConfigAtFirstStart(t *testing.T) {
	l, _ := cluster(t)
	master := l.ControlPlane[0].Node
	must(t, os.RemoveAll(master.serviceFile("state")))
	s := start(t, master, ServiceOptions{Config: "mode: SomeDeployment\n"})
	seen := awaitReason(t, s, "InvalidConfig")
	if seen.Table.Present || seen.Config.Source == "file" {
		t.Errorf("something is active: %+v", seen)
	}
	for _, vip := range l.API.Both() {
		awaitRefused(t, l.Internet.Node, web(vip))
	}
	must(t, master.WriteConfig(master.DefaultConfig()))
	awaitReason(t, s, "Serving")
}

// TestHalfWrittenKeepalivedConf holds that the service serves while keepalived.conf is
// rendered: OpenShift creates the file and then writes it.
func TestHalfWrittenKeepalivedConf(t *testing.T) {
	l, _ := cluster(t)
	master := l.ControlPlane[0]
	s := start(t, master.Node, ServiceOptions{})
	whole, err := os.ReadFile(master.KeepalivedConfig())
	must(t, err)
	t.Cleanup(func() { must(t, master.WriteKeepalivedConfig()) })
	host := publishName(t, l, "rendered", l.API)
	for _, size := range []int{0, len(whole) / 4, len(whole) / 2, len(whole) * 3 / 4, len(whole) - 8} {
		must(t, os.WriteFile(master.KeepalivedConfig(), whole[:size], 0o644))
		reload(t, s) // the service has now read exactly this
		for _, vip := range l.API.Both() {
			text, err := l.Internet.Raw(t.Context(), web(vip), challengeRequest(host, "any"))
			must(t, err)
			if !strings.HasPrefix(text, "HTTP/1.1 503 ") && !strings.HasPrefix(text, "HTTP/1.0 503 ") {
				t.Errorf("with %d of %d bytes, the router behind %s is not reached: %.100q", size, len(whole), vip, text)
			}
		}
	}
	must(t, os.WriteFile(master.KeepalivedConfig(), whole, 0o644))
	reload(t, s)
	awaitReason(t, s, "Serving")
}

// configWithVIPs returns a configuration with the VIPs.
func configWithVIPs(api, ingress Pair) string {
	return fmt.Sprintf("vips:\n  api: [%q, %q]\n  ingress: [%q, %q]\n", api.V4, api.V6, ingress.V4, ingress.V6)
}
