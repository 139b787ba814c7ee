// SPDX-License-Identifier: Apache-2.0

package attest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
)

// payloadType is the type of a signed in-toto Statement.
const payloadType = "application/vnd.in-toto+json"

// envelope is a DSSE envelope. In JSON, its bytes are base64
// (https://github.com/secure-systems-lab/dsse/blob/master/envelope.md).
type envelope struct {
	PayloadType string              `json:"payloadType"`
	Payload     []byte              `json:"payload"`
	Signatures  []map[string][]byte `json:"signatures"` // of one key: "sig"
}

// Sign returns a statement in a signed envelope, as one line of JSON.
func Sign(statement []byte, key *ecdsa.PrivateKey) ([]byte, error) {
	// DSSE's pre-authentication encoding.
	signed := fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(payloadType), payloadType, len(statement), statement)
	digest := sha256.Sum256(signed)
	sig, err := ecdsa.SignASN1(rand.Reader, key, digest[:])
	if err != nil {
		return nil, fmt.Errorf("cannot sign an attestation: %w", err)
	}
	text, err := json.Marshal(envelope{payloadType, statement, []map[string][]byte{{"sig": sig}}})
	if err != nil {
		return nil, fmt.Errorf("cannot write an attestation: %w", err)
	}
	return append(text, '\n'), nil
}

// ReadKey reads a private key on the curve P-256 from a PEM file, as openssl writes it.
func ReadKey(file string) (*ecdsa.PrivateKey, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read the private key: %w", err)
	}
	var key *ecdsa.PrivateKey
	if block, _ := pem.Decode(text); block != nil {
		if key, err = x509.ParseECPrivateKey(block.Bytes); err != nil {
			parsed, _ := x509.ParsePKCS8PrivateKey(block.Bytes)
			key, _ = parsed.(*ecdsa.PrivateKey)
		}
	}
	if key == nil || key.Curve != elliptic.P256() {
		return nil, errors.New("cannot read the private key: " + file +
			" is not an unencrypted key on the curve P-256: create one as build/README.md describes")
	}
	return key, nil
}
