// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/http01-proxyd/http01-proxyd/pkg/status"
	"github.com/http01-proxyd/http01-proxyd/pkg/upstream"
)

// outcomes are values of that label, for requests that went to the ingress.
func outcomes() []string {
	return texts(status.Answered, status.NotFound, status.NoRoute, status.Redirected, status.OtherCode, status.Failed, status.Unread)
}

// refusals are its other values.
func refusals() []string {
	return texts(status.NotChallenge, status.ForeignHost, status.BadMethod, status.BadRequest, status.TooLarge, status.HeadTimeout,
		status.ClientGone, status.SourceLimit, status.Evicted, status.Loop)
}

// askers are all values of the label client.
func askers() []string {
	return texts(status.CertManager, status.LetsEncrypt, status.Pebble, status.StepCA, status.OwnCheck, status.OtherAsker)
}

// causes are all values of that label.
func causes() []string {
	return texts(upstream.NoUpstream, upstream.Refused, upstream.ConnectTimeout, upstream.Unreachable, upstream.ClosedWithoutAnswer,
		upstream.Reset, upstream.AnswerTimeout, upstream.MalformedAnswer, upstream.AnswerTruncated, upstream.AnswerTooLarge,
		upstream.LocalResources, upstream.Stopped, upstream.NoRoute, upstream.RedirectToHTTPS, upstream.Loop)
}

func texts[T ~string](values ...T) []string {
	all := make([]string, len(values))
	for i, v := range values {
		all[i] = string(v)
	}
	return all
}
