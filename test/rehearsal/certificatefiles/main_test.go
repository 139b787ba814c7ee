// SPDX-License-Identifier: Apache-2.0

package certificatefiles

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/util/keyutil"

	"github.com/http01-proxyd/http01-proxyd/test/rehearsal/cluster"
	"github.com/http01-proxyd/http01-proxyd/test/support/host"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// Variables from the outside for the inside of the cell.
const (
	treeVariable     = "HTTP01_CERTIFICATE_FILES_TREE"
	programsVariable = "HTTP01_CERTIFICATE_FILES_PROGRAMS"
)

// Names and paths. RFC 5737 reserves the network.
const (
	name     = "api.example.com"
	own      = "kubernetes.default.svc" // a name of the API server's own certificate
	address  = "192.0.2.11"
	files    = "docs/install/certificate-files"
	document = "docs/install/other-kubernetes.md"
	source   = "/root/source" // the parts of the repository that the commands need
	kubectl  = "/root/kubectl"
	// state is the folder with the API server's own files, whose name depends on the distribution.
	state = "/var/lib/control-plane"
	// image is the root directory of the API server, as of a container.
	image = "/var/lib/image"
)

// shared is the host that the tests use in turn.
var shared *node

// node is a control-plane node.
type node struct {
	*host.Host
}

func TestMain(m *testing.M) {
	os.Exit(host.Suite{Prepare: prepare, Up: up}.Run(m.Run))
}

// prepare builds what needs the machine's own network.
func prepare(ctx context.Context) ([]string, error) {
	tree, err := host.Tree(ctx, filepath.Join(host.Repository(), ".cache"))
	if err != nil {
		return nil, err
	}
	programs, err := cluster.Build(ctx)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(programs)
	return []string{treeVariable + "=" + tree, programsVariable + "=" + string(text)}, err
}

func up(ctx context.Context, c *host.Cell) (down func(context.Context) error, err error) {
	if err := c.AddBridge(ctx, "br0", netip.MustParsePrefix("192.0.2.1/24")); err != nil {
		return nil, err
	}
	h, err := c.NewHost(host.Options{
		Name: "node", Tree: os.Getenv(treeVariable), Bridge: "br0",
		Addresses: []netip.Prefix{netip.MustParsePrefix(address + "/24")},
	})
	if err != nil {
		return nil, err
	}
	shared = &node{h}
	if err = shared.install(); err == nil {
		err = h.Boot(ctx)
	}
	if err == nil {
		err = shared.startCluster(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, fmt.Errorf("%s", h.Diagnosis(ctx)), h.Close(ctx))
	}
	return func(ctx context.Context) error { return errors.Join(h.PowerOff(ctx), h.Close(ctx)) }, nil
}

// install copies programs, the API server's own files, and the files of the document.
func (n *node) install() error {
	var programs cluster.Programs
	if err := json.Unmarshal([]byte(os.Getenv(programsVariable)), &programs); err != nil {
		return fmt.Errorf("read %s: %w", programsVariable, err)
	}
	authority, err := lab.NewAuthority("kubernetes")
	if err != nil {
		return err
	}
	identity, err := authority.Issue(lab.ServerCertificate{
		Names: []string{"kubernetes", own}, Addresses: []netip.Addr{netip.MustParseAddr(address)},
	})
	if err != nil {
		return err
	}
	key, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return fmt.Errorf("create the key of the tokens: %w", err)
	}
	err = errors.Join(
		n.Install(programs.Etcd, "/usr/bin/etcd", 0o755),
		n.Install(programs.APIServer, image+"/usr/bin/kube-apiserver", 0o755),
		n.Install(programs.TokenController, "/usr/bin/token-controller", 0o755),
		n.Install(programs.Kubectl, kubectl, 0o755),
		n.WriteFile(state+"/ca.crt", string(authority.Certificate()), 0o600),
		n.WriteFile(state+"/own.crt", string(identity.Chain), 0o600),
		n.WriteFile(state+"/own.key", string(identity.Key), 0o600),
		n.WriteFile(state+"/service-account.key", string(key), 0o600),
		n.WriteFile(state+"/tokens.csv", "administrator,admin,admin,system:masters\n", 0o600),
		n.WriteFile("/root/.kube/config", administrator, 0o600),
	)
	entries, readErr := os.ReadDir(filepath.Join(host.Repository(), files))
	err = errors.Join(err, readErr)
	for _, entry := range entries {
		info, infoErr := entry.Info()
		if err = errors.Join(err, infoErr); err != nil {
			break
		}
		err = n.Install(filepath.Join(host.Repository(), files, entry.Name()), path.Join(source, files, entry.Name()),
			info.Mode().Perm())
	}
	return err
}

// administrator is the kubeconfig of root.
const administrator = `apiVersion: v1
kind: Config
clusters:
- name: local
  cluster: {server: "https://127.0.0.1:6443", tls-server-name: ` + own + `, certificate-authority: ` + state + `/ca.crt}
users: [{name: admin, user: {token: administrator}}]
contexts: [{name: local, context: {cluster: local, user: admin}}]
current-context: local
`

// startCluster starts etcd, the API server without a certificate for the name, and the controller of tokens.
func (n *node) startCluster(ctx context.Context) error {
	const client, peer = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
	_, err := n.Run(
		ctx, "systemd-run", "--quiet", "--unit=etcd", "etcd", "--data-dir=/var/lib/etcd", "--unsafe-no-fsync",
		"--listen-client-urls="+client, "--advertise-client-urls="+client, "--listen-peer-urls="+peer,
		"--initial-advertise-peer-urls="+peer, "--initial-cluster=default="+peer, "--log-level=warn",
	)
	if err != nil {
		return err
	}
	if err := n.startAPIServer(ctx, nil); err != nil {
		return err
	}
	_, err = n.Run(ctx, "systemd-run", "--quiet", "--unit=token-controller", "token-controller",
		"--kubeconfig=/root/.kube/config", "--service-account-private-key-file="+state+"/service-account.key",
		"--root-ca-file="+state+"/ca.crt")
	return err
}

// startAPIServer starts the API server, instead of the one before. With mounts, each as FROM:TO, its root directory
// contains only the program and these, as in the container of a static Pod.
func (n *node) startAPIServer(ctx context.Context, mounts []string, arguments ...string) error {
	if _, err := n.Run(ctx, "sh", "-c", "systemctl stop kube-apiserver || :"); err != nil {
		return err
	}
	// After SIGTERM it would wait a minute for its clients.
	command := []string{"--quiet", "--collect", "--unit=kube-apiserver", "--property=KillSignal=SIGKILL"}
	program := image + "/usr/bin/kube-apiserver"
	if mounts != nil {
		command = append(command, "--property=RootDirectory="+image)
		program = "/usr/bin/kube-apiserver"
	}
	for _, mount := range mounts {
		command = append(command, "--property=BindReadOnlyPaths="+mount)
	}
	command = append(
		command, program, "--etcd-servers=http://127.0.0.1:2379", "--bind-address=0.0.0.0", "--advertise-address="+address,
		"--tls-cert-file="+state+"/own.crt", "--tls-private-key-file="+state+"/own.key",
		"--service-cluster-ip-range=10.96.0.0/12", "--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+state+"/service-account.key",
		"--service-account-signing-key-file="+state+"/service-account.key",
		"--token-auth-file="+state+"/tokens.csv", "--authorization-mode=Node,RBAC", "--profiling=false", "--v=1",
	)
	if _, err := n.Run(ctx, "systemd-run", append(command, arguments...)...); err != nil {
		return err
	}
	return lab.Eventually(ctx, "the API server", func(ctx context.Context) error {
		_, err := n.Run(ctx, kubectl, "get", "--raw=/readyz")
		return err
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// must1 returns the value of a call and ends the test on its error.
func must1[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		must(t, err)
		return value
	}
}

// use returns the host, and logs a diagnosis when the test fails.
func use(t *testing.T) *node {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: a host that boots")
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(shared.Diagnosis(context.Background()))
		}
	})
	return shared
}

// section returns a section of the document, from its heading on.
func section(t *testing.T, heading string) string {
	t.Helper()
	text := must1(os.ReadFile(filepath.Join(host.Repository(), document)))(t)
	_, rest, found := strings.Cut(string(text), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("%s has no section %q", document, heading)
	}
	part, _, _ := strings.Cut(rest, "\n## ")
	return part
}

// block returns the first block of a kind in a text.
func block(t *testing.T, text, kind string) string {
	t.Helper()
	_, rest, found := strings.Cut(text, "```"+kind+"\n")
	if !found {
		t.Fatalf("no block %q in:\n%s", kind, text)
	}
	inside, _, _ := strings.Cut(rest, "```")
	return inside
}

// consoles returns the commands of each console block in a text, without the prompts.
func consoles(text string) (all []string) {
	for _, part := range strings.Split(text, "```console\n")[1:] {
		part, _, _ = strings.Cut(part, "```")
		var commands strings.Builder
		for line := range strings.Lines(part) {
			line = strings.TrimPrefix(strings.TrimPrefix(line, "# "), "$ ")
			commands.WriteString(line)
		}
		all = append(all, commands.String())
	}
	return all
}
