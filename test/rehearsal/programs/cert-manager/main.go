// SPDX-License-Identifier: Apache-2.0

// Command cert-manager runs cert-manager's own controllers for ACME.
//
// cert-manager's main program is in a module that no proxy serves
// (github.com/cert-manager/cert-manager/controller-binary). This command starts the same
// controllers in the same way (cmd/controller/app/controller.go). Its flags are a part of
// cert-manager's flags, with the same names and defaults.
//
// It leaves out leader election, the metrics and health listeners, the profiler, and the
// issuers other than ACME. cert-manager's webhook does not run either: the schemas of the
// CRDs alone validate the objects, and CertificateRequests have no user name.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/cert-manager/cert-manager/pkg/controller/acmechallenges"
	"github.com/cert-manager/cert-manager/pkg/controller/acmeorders"
	"github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/acme"
	"github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	"github.com/cert-manager/cert-manager/pkg/controller/clusterissuers"
	"github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/acme" // registers the ACME issuer
	logf "github.com/cert-manager/cert-manager/pkg/logs"
	"github.com/cert-manager/cert-manager/pkg/util/feature"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-base/logs"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cert-manager:", err)
		os.Exit(1)
	}
}

// names returns the controllers that a certificate of an ACME issuer needs.
func names() []string {
	return []string{
		acmechallenges.ControllerName, acmeorders.ControllerName,
		acme.CRControllerName, approver.ControllerName,
		issuing.ControllerName, keymanager.ControllerName, readiness.ControllerName,
		requestmanager.ControllerName, revisionmanager.ControllerName, trigger.ControllerName,
		clusterissuers.ControllerName, issuers.ControllerName,
	}
}

// options parses the flags. The defaults are cert-manager's
// (internal/apis/config/controller/v1alpha1/defaults.go).
func options(args []string) (controller.ContextOptions, int, error) {
	o := controller.ContextOptions{
		KubernetesAPIQPS: 20, KubernetesAPIBurst: 50,
		ACMEOptions: controller.ACMEOptions{
			HTTP01SolverImage:                 "quay.io/jetstack/cert-manager-acmesolver",
			HTTP01SolverResourceRequestCPU:    resource.MustParse("10m"),
			HTTP01SolverResourceRequestMemory: resource.MustParse("64Mi"),
			HTTP01SolverResourceLimitsCPU:     resource.MustParse("100m"),
			HTTP01SolverResourceLimitsMemory:  resource.MustParse("64Mi"),
			ACMEHTTP01SolverRunAsNonRoot:      true,
			DNS01CheckAuthoritative:           true,
		},
		IssuerOptions: controller.IssuerOptions{ClusterIssuerAmbientCredentials: true},
		CertificateOptions: controller.CertificateOptions{CopiedAnnotationPrefixes: []string{
			"*", "-kubectl.kubernetes.io/",
			"-fluxcd.io/", "-argocd.argoproj.io/",
		}},
	}
	f := pflag.NewFlagSet("cert-manager", pflag.ContinueOnError)
	log := logs.NewOptions()
	logf.AddFlags(log, f)
	feature.DefaultMutableFeatureGate.AddFlag(f)
	workers := f.Int("concurrent-workers", 5, "number of workers of each controller")
	f.StringVar(&o.Kubeconfig, "kubeconfig", "", "path of the kubeconfig")
	f.StringVar(&o.ClusterResourceNamespace, "cluster-resource-namespace", "kube-system",
		"namespace of the Secrets of ClusterIssuers")
	f.StringSliceVar(&o.HTTP01SolverNameservers, "acme-http01-solver-nameservers", nil,
		"DNS servers of the self check, as address:port")
	f.DurationVar(&o.DNS01CheckRetryPeriod, "dns01-check-retry-period", 10*time.Second,
		"time between self checks, also for HTTP-01")
	f.IntVar(&o.MaxConcurrentChallenges, "max-concurrent-challenges", 60,
		"number of challenges that are processed at a time")
	addBackoffFlags(f, &o)
	if err := f.Parse(args); err != nil {
		return o, 0, err
	}
	return o, *workers, logf.ValidateAndApply(log)
}

// addMinimumBackoff adds the flag of the delay after the first failure, for the versions that have it.
func addMinimumBackoff(f *pflag.FlagSet, value *time.Duration) {
	f.DurationVar(value, "certificate-request-minimum-backoff-duration", time.Hour, "delay after the first failure")
}

func run(ctx context.Context, args []string) error {
	o, workers, err := options(args)
	if err != nil {
		return fmt.Errorf("read the flags: %w", err)
	}
	logf.InitLogs()
	defer logf.FlushLogs()
	tasks, ctx := errgroup.WithContext(logf.NewContext(ctx, logf.Log, "controller"))
	factory, err := controller.NewContextFactory(ctx, o)
	if err != nil {
		return fmt.Errorf("connect to the API server: %w", err)
	}
	base, err := factory.Build()
	if err != nil {
		return fmt.Errorf("build the context of the controllers: %w", err)
	}
	known := controller.Known()
	for _, name := range names() {
		start := known[name]
		if start == nil {
			return fmt.Errorf("cert-manager has no controller %s", name)
		}
		one, err := start(factory)
		if err != nil {
			return fmt.Errorf("start the controller %s: %w", name, err)
		}
		tasks.Go(func() error { return one.Run(workers, ctx) })
	}
	base.SharedInformerFactory.Start(ctx.Done())
	base.KubeSharedInformerFactory.Start(ctx.Done())
	base.HTTP01ResourceMetadataInformersFactory.Start(ctx.Done())
	if err := tasks.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
