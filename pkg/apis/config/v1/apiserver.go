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

// APIServerSpec holds the settings of the administrator.
type APIServerSpec struct {
	// http01ChallengeProxy forwards ACME HTTP-01 challenges on port 80 of the API
	// VIP to the ingress routers, so that cert-manager can obtain a certificate
	// for the name of the API server, api.<cluster>, as it can for names of the
	// ingress. On the control-plane node that holds the API VIP, requests for
	// /.well-known/acme-challenge/* on port 80 are forwarded if their method is
	// GET or HEAD, and answered with 405 otherwise. All other requests to that
	// port are answered with 400. Other addresses and ports are not affected.
	//
	// This requires a platform on which keepalived manages the API VIP on the
	// control-plane nodes. It has no effect where one address is both the API
	// VIP and the ingress VIP.
	//
	// When omitted, the proxy is not deployed and port 80 of the API VIP is not
	// redirected.
	// +optional
	HTTP01ChallengeProxy *HTTP01ChallengeProxySpec `json:"http01ChallengeProxy,omitempty"`
}

// HTTP01ChallengeProxySpec selects whether the proxy runs, and its port.
//
// +kubebuilder:validation:XValidation:rule="self.mode == 'CustomDeployment' ? has(self.customDeployment) : !has(self.customDeployment)",message="customDeployment is required when mode is CustomDeployment, and forbidden otherwise"
// +union
type HTTP01ChallengeProxySpec struct {
	// mode selects whether the proxy is deployed, and how its port is chosen.
	//
	// Valid values are "DefaultDeployment", "CustomDeployment" and "".
	//
	// When set to "DefaultDeployment", port 80 of the API VIP is redirected to
	// the proxy on port 8888 of the control-plane node.
	//
	// When set to "CustomDeployment", port 80 of the API VIP is redirected to
	// the port in customDeployment. Use this if another workload uses port 8888.
	//
	// When set to "", the empty string, the proxy is disabled, as when
	// http01ChallengeProxy is omitted. The text of the enhancement proposal
	// disables the proxy with the empty value, but its enum lacks it. Here it is
	// a valid value.
	//
	// This field is required. Any value may be changed to any other value.
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

// The values of the markers, for programs that validate an object before it reaches an
// API server. Markers cannot use constants: a test compares both.
const (
	HTTP01ChallengeProxyUnionMessage = "customDeployment is required when mode is CustomDeployment, and " +
		"forbidden otherwise"
	HTTP01ChallengeProxyMinInternalPort = 1024
	HTTP01ChallengeProxyMaxInternalPort = 65535
)

// HTTP01ChallengeProxyCustomDeploymentSpec holds the settings of mode CustomDeployment.
type HTTP01ChallengeProxyCustomDeploymentSpec struct {
	// internalPort is the port on which the proxy listens on control-plane nodes,
	// and to which port 80 of the API VIP is redirected. Direct connections to it
	// are rejected.
	//
	// Valid values are 1024 to 65535. Choose a port that no other process on the
	// control-plane nodes uses, outside the range of NodePort services. If the
	// port is in use, the proxy does not serve, and the status of the host names
	// the process that uses it.
	//
	// This field is required.
	// +kubebuilder:validation:Minimum=1024
	// +kubebuilder:validation:Maximum=65535
	// +required
	InternalPort int32 `json:"internalPort"`
}
