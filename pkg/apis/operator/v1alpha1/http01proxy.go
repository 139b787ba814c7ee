// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// HTTP01Proxy forwards ACME HTTP-01 challenges on port 80 of the API VIP to the ingress
// routers. The proxy is disabled if no object exists.
//
// The enhancement (openshift/enhancements 1929) has a namespaced object with the name
// default. Its implementation (cert-manager-operator 459) has a cluster-scoped object
// with the name cluster. Both are valid here.
//
// +kubebuilder:resource:path=http01proxies,scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:validation:XValidation:rule="self.metadata.name in ['cluster', 'default']",message="http01proxy is a singleton, .metadata.name must be 'cluster' or 'default'"
type HTTP01Proxy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec selects how the proxy is deployed
	// +required
	Spec HTTP01ProxySpec `json:"spec"`

	// status is the observed state
	// +optional
	Status HTTP01ProxyStatus `json:"status,omitempty"`
}

// HTTP01ProxySpec selects how the proxy is deployed, and its port.
//
// +kubebuilder:validation:XValidation:rule="self.mode == 'CustomDeployment' ? has(self.customDeployment) : !has(self.customDeployment)",message="customDeployment is required when mode is CustomDeployment, and forbidden otherwise"
// +union
type HTTP01ProxySpec struct {
	// mode selects how the port of the proxy is chosen.
	//
	// Valid values are "DefaultDeployment" and "CustomDeployment". There is no value
	// that disables the proxy: delete the object.
	//
	// When omitted, the mode is "DefaultDeployment". The enhancement requires a mode.
	// Its implementation has an empty spec.
	// +unionDiscriminator
	// +kubebuilder:default=DefaultDeployment
	// +optional
	Mode HTTP01ProxyMode `json:"mode,omitempty"`

	// customDeployment holds the settings of mode "CustomDeployment". It is
	// required when mode is "CustomDeployment", and forbidden otherwise.
	// +unionMember
	// +optional
	CustomDeployment *HTTP01ProxyCustomDeploymentSpec `json:"customDeployment,omitempty"`
}

// HTTP01ProxyMode is how the proxy is deployed.
//
// +kubebuilder:validation:Enum=DefaultDeployment;CustomDeployment
type HTTP01ProxyMode string

// The modes.
const (
	HTTP01ProxyModeDefault HTTP01ProxyMode = "DefaultDeployment"
	HTTP01ProxyModeCustom  HTTP01ProxyMode = "CustomDeployment"
)

// HTTP01ProxyCustomDeploymentSpec holds the settings of mode CustomDeployment.
type HTTP01ProxyCustomDeploymentSpec struct {
	// internalPort is the port on which the proxy listens on control-plane nodes,
	// and to which port 80 of the API VIP is redirected.
	//
	// Valid values are 1024 to 65535. When omitted, the port is 8888.
	// +kubebuilder:validation:Minimum=1024
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:default=8888
	// +optional
	InternalPort int32 `json:"internalPort,omitempty"`
}

// HTTP01ProxyStatus is the observed state.
type HTTP01ProxyStatus struct {
	// conditions are Ready and Degraded
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// proxyImage is the image of the proxy, in the first revision of the proposal
	// +optional
	ProxyImage string `json:"proxyImage,omitempty"`
}

// The names of the object. A cluster has one.
const (
	NameCluster = "cluster" // cluster-scoped
	NameDefault = "default" // in a namespace
)
