// SPDX-License-Identifier: Apache-2.0

package servingagent

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/http01-proxyd/http01-proxyd/test/rehearsal/internal/loop"
)

// Files are the paths of a certificate and its key on one control-plane node.
type Files struct{ Certificate, Key string }

// Write replaces the files.
func (f Files) Write(certificate, key []byte) error {
	if err := replace(f.Key, key); err != nil {
		return err
	}
	return replace(f.Certificate, certificate)
}

// replace replaces a file by rename.
func replace(path string, text []byte) error {
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return fmt.Errorf("write a file of the API server: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("replace a file of the API server: %w", err)
	}
	return nil
}

// Agent writes the certificate of a Secret to the files of the API servers.
type Agent struct {
	client          kubernetes.Interface
	namespace, name string
	files           []Files
	log             *slog.Logger

	secrets corelisters.SecretLister
	written string // resource version of the Secret
}

// New returns an agent for a Secret.
func New(client kubernetes.Interface, namespace, name string, files []Files, log *slog.Logger) *Agent {
	return &Agent{client: client, namespace: namespace, name: name, files: files, log: log}
}

// Run writes the files until ctx ends.
func (a *Agent) Run(ctx context.Context) error {
	factory := informers.NewSharedInformerFactoryWithOptions(a.client, 0, informers.WithNamespace(a.namespace))
	secrets := factory.Core().V1().Secrets()
	a.secrets = secrets.Lister()
	return loop.Run(ctx, a.log, factory, []cache.SharedIndexInformer{secrets.Informer()}, a.reconcile)
}

func (a *Agent) reconcile(context.Context) (time.Duration, error) {
	secret, err := a.secrets.Secrets(a.namespace).Get(a.name)
	if apierrors.IsNotFound(err) || err == nil && (secret.ResourceVersion == a.written ||
		len(secret.Data[corev1.TLSCertKey]) == 0) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for _, f := range a.files {
		if err := f.Write(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey]); err != nil {
			return 0, err
		}
	}
	a.written = secret.ResourceVersion
	a.log.Info("wrote the certificate", slog.String("secret", a.name))
	return 0, nil
}
