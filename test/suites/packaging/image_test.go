// SPDX-License-Identifier: Apache-2.0

package packaging_test

import (
	"context"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/host"
)

// Images on the host: the base, and the document's name of the result.
const (
	base  = "localhost/base"
	built = "registry.example.com/hosts/edge:latest"
)

// withoutBulk exports the host without parts that the base image does not need: podman,
// documentation, and files of the test.
const withoutBulk = `cd / && tar --create --one-file-system --numeric-owner \
	--exclude=./root/source --exclude=./root/dist --exclude=./root/again --exclude=./root/elsewhere --exclude='./root/v*' \
	--exclude=./var/lib/containers --exclude=./var/lib/apt --exclude=./var/cache --exclude=./var/log/journal \
	--exclude=./usr/share/doc --exclude=./usr/share/locale --exclude=./usr/share/man --exclude=./usr/bin/podman \
	--exclude=./usr/lib/podman . |
	podman import --quiet - ` + base

// gatherImage builds the image of `oc adm must-gather` on that base, and runs its script as a pod does. The host
// has no oc.
const gatherImage = `cd ` + source + `
cp /root/` + adminTool + ` dist/` + adminTool + `-linux-` + runtime.GOARCH + `
podman build --quiet --build-arg=BASE=` + base + ` --file=build/must-gather/Containerfile --tag=gather . >&2
tree=$(podman mount $(podman create --pull=never gather none))
unshare --mount sh -ec 'mount --rbind /dev "$1/dev"; mount --rbind /proc "$1/proc"
exec chroot "$1" bash -c "/usr/bin/gather; oc-http01 version
cat /must-gather/version /must-gather/errors.txt"' sh "$tree"`

func expectGatherImage(t *testing.T, h *host.Host) {
	t.Helper()
	got := runOnHost(t, h, "sh", "-ec", gatherImage)
	for _, want := range []string{
		adminTool + " " + second, "http01-proxyd/must-gather\n", "oc http01 status -o json: exit code 127",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// TestContainerfile builds packaging/Containerfile and boots the result as the root of
// another host. bootc would need ostree.
func TestContainerfile(t *testing.T) {
	s := useTestbed(t)
	h := s.edge
	runOnHost(t, h, "sh", "-c", withoutBulk)
	expectGatherImage(t, h)
	// The folder then has packages of two releases.
	runOnHost(t, h, "cp", packageFile(firstInRPM), source+"/dist")
	// crun cannot raise limits on the test machines, which RUN requires.
	must(t, s.runDocumented(t.Context(), bootcGuide, 0, "BASE="+base, "BUILDAH_ISOLATION=chroot", "BUILDAH_LAYERS=false"))
	id := runOnHost(t, h, "podman", "create", "--pull=never", built, "none")
	tree := filepath.Join(h.Root, runOnHost(t, h, "podman", "mount", id))
	// The host's own /run and /tmp hide files of builds there (bootc's lint reports them).
	if got := runOnHost(t, h, "sh", "-c", `find "$(podman mount `+id+`)"/run "$(podman mount `+id+
		`)"/tmp -mindepth 1`); got != "" {
		t.Errorf("files in the image: %s", got)
	}
	sum := runOnHost(t, h, "sh", "-c", "sha256sum </root/"+second)
	must(t, h.PowerOff(t.Context()))
	t.Cleanup(func() { must(t, h.Boot(context.Background())) })

	layered, err := newHost(s.cell, "layered", tree)
	must(t, err)
	t.Cleanup(func() {
		if t.Failed() && layered.On() {
			t.Log(layered.Diagnosis(context.Background()))
		}
		must(t, layered.Close(context.Background())) // the test's context has ended
	})
	must(t, layered.Boot(t.Context()))
	awaitStatus(t, layered, "NotRequired: ")
	expectProperties(t, layered, service, map[string]string{"UnitFileState": "enabled", "NeedDaemonReload": "no"})
	expectBinary(t, layered, sum)
	expectVerified(t, layered)
	expectJournalCatalog(t, layered)
	if got := runOnHost(t, layered, "rpm", "--query", "http01-proxyd"); !strings.HasPrefix(got, "http01-proxyd-"+
		secondInRPM) {
		t.Errorf("the image has %s", got)
	}
	must(t, layered.PowerOff(t.Context()))
}
