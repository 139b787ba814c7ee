// SPDX-License-Identifier: Apache-2.0

// Package install owns the binary of a host that gets it from a container image: it replaces the
// binary, restarts the service, restores the previous binary and writes the unit that removes all.
// `http01-proxyd install` links it.
//
// systemd/http01-proxyd-install runs that command, first of the installed binary. If the command
// ends with [ExitPull], the script pulls the image, verifies and extracts the binary, and runs the
// command of the extracted binary with --candidate. [ExitFailed] is a failure that the command has
// reported, and that ends the script. With any other code the script continues: the previous binary,
// then a pull and the extracted binary. So a release whose command always fails does not prevent its
// upgrade. Such codes are [ExitNext] after an error of the host or of the release, and all codes of a
// binary that cannot run. A rejected image, and the proven binary that the MachineConfig requires,
// end with [ExitFailed]: a pull returns the same binary. A candidate never ends with [ExitNext].
//
// # State
//
// One [State] in one file has all that a run must keep. [State.Next] is the only decision: it maps
// a state and an [Event] to the next state and an [Action]. The run writes the state before it
// applies the action. A power loss between two actions, or within one, is a new run: it begins with
// the state in the file and with the checksums of the files on the disk.
//
//	phase       the binary on the disk                       event      next phase  action
//	settled     has become ready, or no binary               began      see below
//	                                                         ready      settled     report "is installed, unchanged"
//	                                                         not ready  settled     report; no other binary is known to be better
//	swapping    the previous one, or the candidate           swapped    starting    start the service
//	starting    the candidate, which is not proven yet       ready      settled     report "is installed"
//	                                                         not ready  restoring   restore the previous binary
//	                                                         not ready  starting    report, if there is no previous binary
//	restoring   the candidate, or the previous one           restored   restarting  start the service
//	restarting  the previous one                             ready      rejected    report "the previous binary is restored"
//	                                                         not ready  settled     report that neither becomes ready
//	rejected    the previous one; the candidate is recorded  ready      rejected    report "did not become ready before"
//	                                                         not ready  rejected    report
//
// Two events are the same in each phase in which the service is started. If the service is stopped
// meanwhile, the run reports that, and the timer retries. If the service stays disabled, the run
// stops it and the timer. Both keep the phase, except that restarting becomes rejected. The service
// is disabled if it stays so for 60 s, or for HTTP01_PROXYD_SETTLE_TIME seconds, which tests set.
//
// An event began, which is each run and also each run after a power loss, first decides what the
// disk has, and then what is required:
//
//	phase       condition                                      continues as
//	swapping    the disk has a binary that has become ready    settled
//	swapping    the disk has another binary                    starting
//	restarting                                                 rejected
//	restoring   the candidate is not on the disk               rejected
//	restoring   the disk has the candidate and the previous    restoring: restore the previous binary
//	rejected    the image was rejected less than 60 s ago      report it again
//	rejected    the timer has started this run                 start the service, without a pull
//	            the disk has the required binary               start the service
//	            the previous binary is the required one        swapping: swap in the previous binary
//	            no candidate                                   request a pull
//	            the candidate has another checksum             report it
//	            otherwise                                      swapping: swap in the candidate
//
// The required checksum is that of the MachineConfig, or the one that the same image, by digest,
// had when it was pulled before. Without either, the candidate is the required binary.
package install
