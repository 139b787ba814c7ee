// SPDX-License-Identifier: Apache-2.0

package machineconfig

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"

	ignition "github.com/coreos/ignition/v2/config/v3_4"
)

// Ignition makes an Ignition configuration, as JSON, for a host without the
// machine-config-operator. It holds the binary itself. A nil configuration
// takes the one in the sources.
func Ignition(sources fs.FS, configuration *Input, binary Input) (Object, error) {
	accepted, err := readConfig(sources, configuration)
	if err := errors.Join(err, checkBinary(binary)); err != nil {
		return Object{}, err
	}
	var text []byte
	generated := map[string][]byte{configFile: accepted.Text, binaryFile: binary.Text}
	err = inStage(sources, generated, func(dir string) (err error) {
		text, err = translate(sources, dir, fcosSource)
		return err
	})
	if err != nil {
		return Object{}, err
	}
	parsed, remarks, err := ignition.Parse(text)
	if err != nil || len(remarks.Entries) > 0 {
		return Object{}, Problem{fcosSource, fmt.Sprintf("Ignition refuses the result: %v %v", err, remarks), mendSource(fcosSource)}
	}
	o := Object{File: "http01-proxyd.ign", Text: append(text, '\n'), Size: len(text)}
	o.Paths, o.Units = contents(parsed)
	return o, nil
}

// checkBinary refuses what a Linux host cannot run at all.
func checkBinary(binary Input) error {
	const mend = `give what "make build" or a release has made for Linux`
	file, err := elf.NewFile(bytes.NewReader(binary.Text))
	if err != nil {
		return Problem{binary.Name, fmt.Sprintf("not a Linux program (%v)", err), mend}
	}
	if file.Type != elf.ET_EXEC && file.Type != elf.ET_DYN {
		return Problem{binary.Name, fmt.Sprintf("not a Linux program, but an ELF file of type %v", file.Type), mend}
	}
	return nil
}
