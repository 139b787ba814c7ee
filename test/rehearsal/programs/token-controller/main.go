// SPDX-License-Identifier: Apache-2.0

// Command token-controller is the controller of kube-controller-manager that writes the tokens
// of ServiceAccounts into their Secrets. Its flags have the names of kube-controller-manager's.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/klog/v2"
	tokens "k8s.io/kubernetes/pkg/controller/serviceaccount"
	"k8s.io/kubernetes/pkg/serviceaccount"
)

func main() {
	kubeconfig := pflag.String("kubeconfig", "", "file with the address of the API server and a token")
	key := pflag.String("service-account-private-key-file", "", "key that signs tokens, in PEM")
	ca := pflag.String("root-ca-file", "", "CA certificate that the Secrets contain, in PEM")
	pflag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	err := run(ctx, *kubeconfig, *key, *ca)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "token-controller:", err)
		os.Exit(1)
	}
}

// run starts the controller as kube-controller-manager does
// (its cmd/kube-controller-manager/app/service_accounts.go).
func run(ctx context.Context, kubeconfig, keyFile, caFile string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("create the client of the API: %w", err)
	}
	key, keyErr := keyutil.PrivateKeyFromFile(keyFile)
	ca, err := os.ReadFile(caFile)
	if err := errors.Join(keyErr, err); err != nil {
		return fmt.Errorf("read the files of the tokens: %w", err)
	}
	generator, err := serviceaccount.JWTTokenGenerator(serviceaccount.LegacyIssuer, key)
	if err != nil {
		return fmt.Errorf("create the generator of tokens: %w", err)
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	controller, err := tokens.NewTokensController(klog.FromContext(ctx), factory.Core().V1().ServiceAccounts(),
		factory.Core().V1().Secrets(), client, tokens.TokensControllerOptions{TokenGenerator: generator, RootCA: ca})
	if err != nil {
		return fmt.Errorf("create the controller of tokens: %w", err)
	}
	factory.Start(ctx.Done())
	controller.Run(ctx, 1)
	return nil
}
