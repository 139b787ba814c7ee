// SPDX-License-Identifier: Apache-2.0

package rehearsal_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/http01-proxyd/http01-proxyd/test/rehearsal/cluster"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// heredoc is a file that the tutorial writes.
var heredoc = regexp.MustCompile(`(?s)cat >(\S+) <<EOF\n(.*?)\nEOF\n`)

// runTutorial applies the objects of docs/tutorial.md and renews the certificate with its
// patch. test/suites/delivery runs the commands themselves, with a fake `oc` and a fake
// cert-manager.
func runTutorial(f *failure) {
	f.name, f.host = "api-certificate", "api."+f.lab.Domain
	f.resolve(f.lab.API)
	client := must1(dynamic.NewForConfig(f.cluster.Config))(f.t)
	files := map[string]*unstructured.Unstructured{}
	for _, found := range heredoc.FindAllStringSubmatch(tutorial(f.t), -1) {
		object := &unstructured.Unstructured{}
		must(f.t, yaml.UnmarshalStrict([]byte(strings.ReplaceAll(found[2], "$API", f.host)), &object.Object))
		files[found[1]] = object
	}
	issuer, certificate := files["issuer.yaml"], files["certificate.yaml"]
	if issuer == nil || certificate == nil {
		f.t.Fatalf("the tutorial writes %v", files)
	}
	url, trust := f.lab.Internet.Directory()
	for field, value := range map[string]string{"server": url, "caBundle": base64.StdEncoding.EncodeToString(trust)} {
		must(f.t, unstructured.SetNestedField(issuer.Object, value, "spec", "acme", field))
	}
	strict := metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}
	must1(client.Resource(clusterIssuers).Create(run, issuer, strict))(f.t)
	must1(client.Resource(clusterIssuers.GroupVersion().WithResource("certificates")).Namespace(certificate.GetNamespace()).Create(run, certificate, strict))(f.t)
	c := f.challenge()
	f.awaitReady()
	f.expectJournal(c.Spec.Token, selfCheck, "got 200")
	f.renew()
	must(f.t, lab.Within(run, issueLimit, "the renewal", func(context.Context) error {
		c, err := f.messages.certificates.Certificates(cluster.ConfigNamespace).Get(f.name)
		if err != nil {
			return err
		}
		if c.Status.Revision == nil || *c.Status.Revision != 2 {
			return fmt.Errorf("its status is %+v", c.Status)
		}
		return nil
	}))
	f.t.Log("cert-manager: the Certificate has revision 2")
}
