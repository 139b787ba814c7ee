// SPDX-License-Identifier: Apache-2.0

// Package install owns the binary of a host that gets it from a container image. It verifies
// the binary, swaps it in, keeps the previous one and restarts the service. It goes back if the
// service does not become ready, and writes the unit that removes everything. `http01-proxyd
// install` links it.
//
// systemd/http01-proxyd-install runs that command, first of the installed binary. If the
// command ends with [ExitPull], the script pulls the image, verifies and extracts the binary,
// and runs the command of the extracted binary with --candidate. [ExitFailed] is a failure that
// the command reported, and that ends the script. With any other code the script continues: the
// previous binary, then a pull and the extracted binary. So a release whose command always
// fails does not prevent its upgrade. Such codes are [ExitNext] after an error, and every code
// of a binary that cannot run. A rejected image ends with [ExitFailed], because a pull would
// return the same binary. A candidate never ends with [ExitNext].
//
// # State
//
// One [State] in one file records the installed binary, which became ready, and the rejected one.
// [State.Decide] is the only decision, of this state and the checksums of the files on the disk. A
// power loss at any time is a new run, which finds:
//
//	on the disk                               decision
//	the installed binary                      as the MachineConfig requires: keep it, swap, or pull
//	another binary, after a swap              the same; it may still be replaced by the previous one
//	the rejected binary and a previous one    go back
//	another one than the rejected binary      keep it, until another image is required
//
// The required checksum comes from the MachineConfig, or from an earlier pull of the same image
// by digest. Without either, the candidate is the required binary.
//
// If the service is stopped meanwhile, the run reports that, and the timer retries. If the service
// stays disabled for 60 s, or for HTTP01_PROXYD_SETTLE_TIME seconds, which tests set, the run stops it
// and the timer.
package install
