// SPDX-License-Identifier: Apache-2.0

package page

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/test/support/browser"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

var update = flag.Bool("update", false, "write the pictures of the documentation (default false)")

// narrow is the width of a telephone.
const narrow = 400

// views are the devices that show each page.
func views() map[string]browser.View {
	return map[string]browser.View{
		"light":        {Width: 1280, Height: 900},
		"dark":         {Width: 1280, Height: 900, Dark: true},
		"narrow-light": {Width: narrow, Height: 800},
		"narrow-dark":  {Width: narrow, Height: 800, Dark: true},
		"paper":        {Width: 720, Height: 1000, Media: "print"},
	}
}

const (
	name     = "api.lab.test"
	acmePath = "/.well-known/acme-challenge/"
)

// dropped is a rule of a firewall. The finding about it has a command.
const dropped = "add table inet site; add chain inet site input { type filter hook input priority 10; }; " +
	"add rule inet site input tcp dport 8888 drop"

// TestPages shows the status and the check of a node that lost its VIPs, took them over
// again, and forwarded challenges: on every device without a request, without JavaScript
// and without a message in the console. It takes a picture of each page on each screen.
func TestPages(t *testing.T) {
	b := chromium(t)
	serveAPI(t, shared.lab)
	serveAndMove(t, shared.lab)
	status, err := shared.lab.ControlPlane[0].Run(t.Context(), "unshare", "--uts", "sh", "-c",
		`hostname "$1" && shift && exec "$@"`, "sh", "master0.lab.test", shared.binary, "status", "--status-socket",
		shared.lab.ControlPlane[0].StatusSocket(), "-o", "html")
	must(t, err)
	cluster := clusterPage(t, shared.lab)
	must(t, shared.lab.Worker.StopRouter(t.Context()))
	_, err = shared.lab.ControlPlane[0].Run(t.Context(), "nft", dropped)
	must(t, err)
	checked, code, err := shared.lab.ControlPlane[0].CheckText(t.Context(), shared.binary, "--name", name, "-o", "html")
	must(t, err)
	if code == 0 {
		t.Error("check finds no problem without a router")
	}
	for title, page := range map[string]struct {
		text  string
		nodes []browser.Node // that a screen reader finds
		words []string
	}{
		"status": {
			status,
			[]browser.Node{
				{Role: "heading", Name: "VIPs on a timeline"},
				{Role: "heading", Name: "Earlier"},
				{Role: "table", Name: "Requests by outcome and client"},
				{Role: "columnheader", Name: "Outcome"},
				{Role: "image", Name: shared.lab.API.V4.String()},
				{Role: "image", Name: shared.lab.API.V6.String()},
				{Role: "image", Name: "State of the service"},
				{Role: "image", Name: name + ": 79d left of 90d"},
				{Role: "image", Name: "Response times of the last challenges, oldest first"},
			},
			[]string{
				">Serving<", "Held from", "Standby from", "not-challenge", "prerouting", "ingress-refused",
				">ok<", "&amp;lt;b&amp;gt…", // a token that would be an element if it was not escaped
			},
		},
		"cluster": {
			cluster,
			[]browser.Node{
				{Role: "heading", Name: strings.TrimPrefix(name, "api.")},
				{Role: "heading", Name: "Holders of the API VIPs"},
				{Role: "table", Name: "API VIPs and the nodes that hold them now"},
				{Role: "image", Name: shared.lab.API.V4.String() + " on master0"},
				{Role: "image", Name: shared.lab.API.V6.String() + " on master2"},
				{Role: "heading", Name: "master1"},
				{Role: "link", Name: "master1"},
			},
			[]string{"Held from"},
		},
		"check": {
			checked,
			[]browser.Node{
				{Role: "heading", Name: "Checks"},
				{Role: "heading", Name: "Problems"},
				{Role: "table", Name: "Results"},
				{Role: "table", Name: "The last challenges, newest first"},
			},
			[]string{"ingress-refused", "Fix: ", "vip-holder", ">nft insert rule inet site input tcp dport 8888 accept</pre>"},
		},
	} {
		path := save(t, hostPaths(shared.lab, page.text))
		for device, view := range views() {
			t.Run(title+" "+device, func(t *testing.T) {
				p, err := b.Open(t.Context(), path, view)
				must(t, err)
				expectQuiet(t, p, path)
				expectFits(t, p, view)
				document, err := p.Document(t.Context())
				must(t, err)
				for _, w := range page.words {
					if !strings.Contains(document, w) {
						t.Errorf("lacks %q", w)
					}
				}
				nodes, err := p.Accessible(t.Context())
				must(t, err)
				for _, n := range page.nodes {
					if !slices.Contains(nodes, n) {
						t.Errorf("the accessibility tree lacks %+v", n)
					}
				}
				if t.Failed() {
					t.Log(nodes, document)
				}
				if view.Width == narrow {
					expectShortRows(t, p)
				}
				if view.Media == "" {
					takePicture(t, p, title, device)
				}
			})
		}
	}
}

// hostPaths returns a page with the paths of a host in place of the lab's paths.
func hostPaths(l *lab.Lab, page string) string {
	for _, n := range l.ControlPlane {
		page = strings.NewReplacer(n.APIServerURL(), "/etc/kubernetes/apiserver-url.env",
			filepath.Dir(n.APIServerURL()), "/etc/http01-proxyd").Replace(page)
	}
	return page
}

// serveAPI presents a certificate for the name of the API on each control-plane node, and one of the
// cluster to other clients.
func serveAPI(t *testing.T, l *lab.Lab) {
	t.Helper()
	const day = 24 * time.Hour
	issued, err := lab.Issue("R11", 90*day, 79*day+12*time.Hour, name)
	must(t, err)
	internal, err := lab.Issue("kube-apiserver-lb-signer", 30*day, 20*day+12*time.Hour, "10.0.0.1")
	must(t, err)
	for _, n := range l.ControlPlane {
		a, err := n.ServeAPI(t.Context(), func(requested string, _ netip.Addr) *tls.Certificate {
			if requested == name {
				return issued
			}
			return internal
		})
		must(t, err)
		t.Cleanup(func() { must(t, a.Close()) })
		must(t, n.WriteAPIServerURL("api-int."+strings.TrimPrefix(name, "api.")))
		t.Cleanup(func() { must(t, os.Remove(n.APIServerURL())) })
	}
}

// serveAndMove runs the service on each control-plane node, orders certificates while the
// VIPs leave the first node and come back, sends a request while the router is stopped,
// and some that the proxy rejects.
func serveAndMove(t *testing.T, l *lab.Lab) {
	t.Helper()
	must(t, l.AwaitVIPs(t.Context()))
	must(t, l.Internet.SetName(t.Context(), name, l.API))
	services := make([]*lab.Service, len(l.ControlPlane))
	for i, n := range l.ControlPlane {
		must(t, n.UseDNS())
		s, err := n.StartService(t.Context(), lab.ServiceOptions{Binary: shared.binary})
		must(t, err)
		t.Cleanup(func() { must(t, s.Stop(context.Background())) })
		services[i] = s
	}
	order := func(holder int) {
		t.Helper()
		must(t, l.AwaitVIPs(t.Context()))
		_, err := services[holder].AwaitReason(t.Context(), "Serving")
		must(t, err)
		_, err = l.Certificate(t.Context(), lab.Order{Name: name, SelfCheckFrom: l.Pods[2]})
		must(t, err)
	}
	order(0)
	must(t, lab.Eventually(t.Context(), "the certificates in the status", func(ctx context.Context) error {
		text, err := services[0].StatusJSON(ctx)
		if err == nil && !strings.Contains(text, `"issuer": "R11"`) {
			err = errors.New("not read yet")
		}
		return err
	}))
	must(t, l.ControlPlane[0].Disconnect(t.Context()))
	order(1)
	must(t, l.ControlPlane[0].Connect(t.Context()))
	order(0)
	get := func(path string) {
		t.Helper()
		_, err := l.Internet.Raw(t.Context(), netip.AddrPortFrom(l.API.V4, 80).String(), "GET "+path+" HTTP/1.1\r\nHost: "+
			name+"\r\nConnection: close\r\n\r\n")
		must(t, err)
	}
	must(t, l.Worker.StopRouter(t.Context()))
	get(acmePath + "a-token-without-a-router")
	must(t, l.Worker.StartRouter(t.Context(), lab.RouterOptions{}))
	t.Cleanup(func() { must(t, l.Worker.StartRouter(context.Background(), lab.RouterOptions{})) })
	for _, path := range []string{"/", "/favicon.ico", acmePath + "&lt;b&gt;&lt;script&gt;"} {
		get(path)
	}
	order(0)
}

// clusterPage returns the page of oc-http01 for the nodes of the lab. In place of oc, a
// script runs the status command of the node that a debug pod would run it on.
func clusterPage(t *testing.T, l *lab.Lab) string {
	t.Helper()
	tool, err := lab.BuildCommand(t.Context(), "oc-http01")
	must(t, err)
	var nodes, status strings.Builder
	for i, n := range l.ControlPlane {
		if i > 0 {
			nodes.WriteString(", ")
		}
		fmt.Fprintf(&nodes, `{"metadata": {"name": %q}}`, n.Name)
		fmt.Fprintf(&status, "\"debug --quiet node/%s\") exec %s status --status-socket %s -o json ;;\n", n.Name,
			shared.binary, n.StatusSocket())
	}
	dir := t.TempDir()
	script := fmt.Sprintf(
		"#!/bin/sh\ncase \"$1 $2 $3\" in\n\"get nodes \"*) echo '{\"kind\": \"List\", \"items\": [%s]}' ;;\n%sesac\n",
		nodes.String(), status.String())
	must(t, os.WriteFile(filepath.Join(dir, "oc"), []byte(script), 0o700))
	c := exec.CommandContext(t.Context(), tool, "status", "-o", "html")
	c.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	var problems strings.Builder
	c.Stderr = &problems
	text, err := c.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, problems.String())
	}
	return string(text)
}

// expectQuiet expects that a page requested only itself, and that the console shows
// nothing.
func expectQuiet(t *testing.T, p *browser.Page, path string) {
	t.Helper()
	if got := p.Requests(); len(got) != 1 || got[0] != "file://"+path {
		t.Errorf("requests %q", got)
	}
	if got := p.Messages(); len(got) != 0 {
		t.Errorf("the console shows %q", got)
	}
}

// expectFits expects that the whole width of a page fits a view. Wide tables scroll in
// themselves.
func expectFits(t *testing.T, p *browser.Page, v browser.View) {
	t.Helper()
	width, height, err := p.Size(t.Context())
	must(t, err)
	if width > v.Width || height < v.Height {
		t.Errorf("the page has %d × %d pixels on a screen with a width of %d", width, height, v.Width)
	}
}

// maxRow is the height of a row with three lines.
const maxRow = 80

// expectShortRows expects that a row has at most three lines on a narrow screen, and that the detail of
// each challenge begins in them.
func expectShortRows(t *testing.T, p *browser.Page) {
	t.Helper()
	rows, err := p.Boxes(t.Context(), "tbody tr, .terms>div")
	must(t, err)
	for _, r := range rows {
		if r.Height > maxRow {
			t.Errorf("a row is %.0f pixels high: %+v", r.Height, r)
		}
	}
	details, err := p.Boxes(t.Context(), `td[data-title="Detail"]`)
	must(t, err)
	for _, d := range details {
		if !slices.ContainsFunc(rows, func(r browser.Box) bool {
			return d.X >= 0 && d.X < narrow && d.Y >= r.Y && d.Y < r.Y+r.Height
		}) {
			t.Errorf("the detail of a challenge is not visible: %+v", d)
		}
	}
	if len(rows) < 10 {
		t.Errorf("only %d rows", len(rows))
	}
}

// TestPolicy proves that the browser reports what TestPages expects not to happen, and that
// the page's policy forbids it: an image of the network, a script and a frame that somebody
// adds to the page.
func TestPolicy(t *testing.T) {
	b := chromium(t)
	const added = `<img src="http://192.0.2.1/x.png"><script>console.log("executed")</script><iframe src="http://192.0.2.1/frame"></iframe></body>`
	worker := shared.lab.Worker
	must(t, worker.WriteConfig(worker.DefaultConfig()))
	page, _, err := worker.CheckText(t.Context(), shared.binary, "-o", "html")
	must(t, err)
	whole := strings.Replace(page, "</body>", added, 1)
	open := strings.Replace(whole, `http-equiv="Content-Security-Policy"`, `name="removed"`, 1)
	if open == whole {
		t.Fatal("the page has no policy")
	}
	for _, tt := range []struct {
		name, text string
		forbidden  bool
	}{{"with the policy", whole, true}, {"without the policy", open, false}} {
		p, err := b.Open(t.Context(), save(t, tt.text), browser.View{Width: 800, Height: 600, Scripts: true})
		must(t, err)
		messages := strings.Join(p.Messages(), "\n")
		if !slices.Contains(p.Requests(), "http://192.0.2.1/x.png") {
			t.Errorf("%s: the browser does not report the image: %q", tt.name, p.Requests())
		}
		if framed := slices.Contains(p.Requests(), "http://192.0.2.1/frame"); framed == tt.forbidden {
			t.Errorf("%s: requests %q", tt.name, p.Requests())
		}
		if executed := strings.Contains(messages, `"value":"executed"`); executed == tt.forbidden {
			t.Errorf("%s: executed %t: %s", tt.name, executed, messages)
		}
		if got := strings.Count(messages, "Content Security Policy"); (got >= 3) != tt.forbidden {
			t.Errorf("%s: %d messages about the policy: %s", tt.name, got, messages)
		}
	}
}
