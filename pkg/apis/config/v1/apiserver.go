// SPDX-License-Identifier: Apache-2.0

package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// APIServer is the cluster's configuration of its API servers, named cluster.
// The platform's own type, in github.com/openshift/api, has the other fields.
//
// +kubebuilder:resource:path=apiservers,scope=Cluster
type APIServer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec holds user settable values for configuration
	// +required
	Spec APIServerSpec `json:"spec"`
}

// APIServerSpec is what an admin asks for.
type APIServerSpec struct {
	// http01ChallengeProxy makes port 80 of the API VIP answer ACME HTTP-01
	// challenges, so that cert-manager can get a certificate for the name of
	// the API server, api.<cluster>, as it can for names of the ingress. On the
	// master that holds the API VIP, requests for
	// /.well-known/acme-challenge/* on port 80 are passed on to the ingress
	// routers if their method is GET or HEAD, and answered with 405 otherwise; all
	// other requests there are answered with 400.
	// Other addresses and ports are not touched.
	//
	// This needs a platform whose API VIP is kept on the masters by keepalived.
	// It does nothing where one address is both the API VIP and the ingress VIP.
	//
	// When omitted, nothing is deployed and port 80 of the API VIP is left alone.
	// +optional
	HTTP01ChallengeProxy *HTTP01ChallengeProxySpec `json:"http01ChallengeProxy,omitempty"`
}

// HTTP01ChallengeProxySpec says whether the proxy runs and on which port.
//
// +kubebuilder:validation:XValidation:rule="self.mode == 'CustomDeployment' ? has(self.customDeployment) : !has(self.customDeployment)",message="customDeployment is required when mode is CustomDeployment, and forbidden otherwise"
// +union
type HTTP01ChallengeProxySpec struct {
	// mode decides whether the proxy is deployed and who chooses its port.
	//
	// Valid values are "DefaultDeployment", "CustomDeployment" and "".
	//
	// When set to "DefaultDeployment", the proxy listens on port 8888 of the
	// masters, to which port 80 of the API VIP is led.
	//
	// When set to "CustomDeployment", it listens on the port that
	// customDeployment names. Choose this where another workload has port 8888.
	//
	// When set to "", the empty string, the proxy is disabled, just as when
	// http01ChallengeProxy is omitted. The design that this API comes from
	// disables with the empty value in its text but lacks it in its enum; it is
	// a valid value here.
	//
	// This field is required, and may be changed from any value to any other.
	// +unionDiscriminator
	// +required
	Mode HTTP01ChallengeProxyMode `json:"mode"`

	// customDeployment holds the settings of mode "CustomDeployment". It is
	// required when mode is "CustomDeployment", and forbidden otherwise.
	// +unionMember
	// +optional
	CustomDeployment *HTTP01ChallengeProxyCustomDeploymentSpec `json:"customDeployment,omitempty"`
}

// HTTP01ChallengeProxyMode is how the proxy is deployed.
//
// +kubebuilder:validation:Enum=DefaultDeployment;CustomDeployment;""
type HTTP01ChallengeProxyMode string

// The modes.
const (
	HTTP01ChallengeProxyModeDefault  HTTP01ChallengeProxyMode = "DefaultDeployment"
	HTTP01ChallengeProxyModeCustom   HTTP01ChallengeProxyMode = "CustomDeployment"
	HTTP01ChallengeProxyModeDisabled HTTP01ChallengeProxyMode = ""
)

// What the markers here say, for those who judge an object before it reaches an
// API server. Markers take no constants: a test compares both.
const (
	HTTP01ChallengeProxyUnionMessage    = "customDeployment is required when mode is CustomDeployment, and forbidden otherwise"
	HTTP01ChallengeProxyMinInternalPort = 1024
	HTTP01ChallengeProxyMaxInternalPort = 65535
)

// HTTP01ChallengeProxyCustomDeploymentSpec is what an admin chooses.
type HTTP01ChallengeProxyCustomDeploymentSpec struct {
	// internalPort is the port of the masters on which the proxy listens and to
	// which port 80 of the API VIP is led. It is not open to direct connections.
	//
	// Valid values are 1024 to 65535. Choose one that nothing else on the
	// masters listens on, outside the range of NodePort services: where it is
	// taken, the proxy does not start to serve, and the host's status names the
	// process that has it.
	//
	// This field is required.
	// +kubebuilder:validation:Minimum=1024
	// +kubebuilder:validation:Maximum=65535
	// +required
	InternalPort int32 `json:"internalPort"`
}
