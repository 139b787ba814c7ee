// SPDX-License-Identifier: Apache-2.0

package viptest

import (
	"bytes"
	"strconv"

	"github.com/http01-proxyd/http01-proxyd/internal/httpfield"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/reqhead"
)

// maxResponse bounds a response. The service's response is about 300 bytes long.
const maxResponse = 1 << 10

// parseResponse reports whether a whole response is the service's answer to a request that is
// no challenge, and returns its instance ID; 0 means an older release.
func parseResponse(response []byte) (instance uint64, ok bool) {
	head, body, found := bytes.Cut(response, []byte("\r\n\r\n"))
	status, fields, _ := bytes.Cut(head, []byte("\r\n"))
	if !found || len(response) > maxResponse || string(status) != "HTTP/1.1 400 Bad Request" ||
		string(body) != reqhead.OnlyChallenges {
		return 0, false
	}
	for line := range bytes.SplitSeq(fields, []byte("\r\n")) {
		name, value, problem := httpfield.Split(line)
		if problem != httpfield.NoFault {
			return 0, false
		}
		if string(name) == reqhead.InstanceField {
			id, err := strconv.ParseUint(string(value), 16, 64)
			if err != nil {
				return 0, false
			}
			instance = id
		}
	}
	return instance, true
}
