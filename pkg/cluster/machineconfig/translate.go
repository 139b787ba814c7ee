// SPDX-License-Identifier: Apache-2.0

package machineconfig

import (
	"errors"
	"fmt"
	"io/fs"

	butane "github.com/coreos/ignition/v2/butane/config"
	"github.com/coreos/ignition/v2/butane/config/common"
)

// translateSource runs Butane on one source, with the CA bundle after the
// configuration. Every remark of Butane is an error: a warning here would be a surprise
// on a host.
func translateSource(sources fs.FS, dir, source string, bundle bool) ([]byte, error) {
	text, err := fs.ReadFile(sources, source)
	if err != nil {
		return nil, fmt.Errorf("cannot read the Butane source: %w", err)
	}
	if bundle && (source == configSource || source == fcosSource) {
		if text, err = insertBundle(source, text); err != nil {
			return nil, err
		}
	}
	out, remarks, err := butane.TranslateBytes(text, common.TranslateBytesOptions{
		TranslateOptions: common.TranslateOptions{FilesDir: dir},
	})
	if len(remarks.Entries) > 0 {
		err = errors.New(remarks.String())
	}
	if err != nil {
		return nil, fmt.Errorf("cannot use %s: %w", source, err)
	}
	return out, nil
}
