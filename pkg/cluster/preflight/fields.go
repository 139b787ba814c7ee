// SPDX-License-Identifier: Apache-2.0

package preflight

import "github.com/http01-proxyd/http01-proxyd/pkg/cluster/machineconfig"

// The kinds of objects that are read.
const (
	kindConfiguration = "MachineConfiguration"
	kindPool          = "MachineConfigPool"
	kindOSConfig      = "MachineOSConfig"
	kindConfig        = "MachineConfig"
	kindVersion       = "ClusterVersion"
	kindAPIServer     = "APIServer"
)

// kinds lists the kinds with the fields that their CRDs have, in any release from 4.17,
// as far as they are read: a misspelt field there would be ignored silently.
// test/suites/apis compares them with the CRDs.
func kinds() []machineconfig.ObjectKind {
	const group = "machineconfiguration.openshift.io/v1"
	object := []string{"apiVersion", "kind", "metadata", "spec", "status"}
	fields := map[string][]string{
		"": object,
		"spec": {
			"bootImageSkewEnforcement", "failedRevisionLimit", "forceRedeploymentReason", "irreconcilableValidationOverrides", "logLevel",
			"managedBootImages", "managementState", "nodeDisruptionPolicy", "observedConfig", "operatorLogLevel", "succeededRevisionLimit",
			"unsupportedConfigOverrides",
		},
		"status": {
			"bootImageSkewEnforcementStatus", "conditions", "generations", "latestAvailableRevision", "managedBootImagesStatus",
			"nodeDisruptionPolicyStatus", "nodeStatuses", "observedGeneration", "readyReplicas", "version",
		},
		"status.nodeDisruptionPolicyStatus": {"clusterPolicies"},
	}
	for _, policy := range []string{"spec.nodeDisruptionPolicy", "status.nodeDisruptionPolicyStatus.clusterPolicies"} {
		fields[policy] = []string{"files", "units", "sshkey"}
		fields[policy+".files[]"] = []string{"path", "actions"}
		fields[policy+".units[]"] = []string{"name", "actions"}
		for _, list := range []string{".files[]", ".units[]"} {
			fields[policy+list+".actions[]"] = []string{"type", "reload", "restart"}
			fields[policy+list+".actions[].reload"] = []string{"serviceName"}
			fields[policy+list+".actions[].restart"] = []string{"serviceName"}
		}
	}
	return []machineconfig.ObjectKind{
		{APIVersion: "operator.openshift.io/v1", Kind: kindConfiguration, Fields: fields},
		{APIVersion: group, Kind: kindPool, Fields: map[string][]string{
			"":     object,
			"spec": {"configuration", "machineConfigSelector", "maxUnavailable", "nodeSelector", "osImageStream", "paused", "pinnedImageSets"},
			"status": {
				"certExpirys", "conditions", "configuration", "degradedMachineCount", "machineCount", "observedGeneration", "osImageStream",
				"poolSynchronizersStatus", "readyMachineCount", "unavailableMachineCount", "updatedMachineCount",
			},
			"status.conditions[]": {"lastTransitionTime", "message", "reason", "status", "type"},
		}},
		{APIVersion: group, Kind: kindOSConfig, Fields: map[string][]string{
			"":                       object,
			"spec":                   {"baseImagePullSecret", "containerFile", "imageBuilder", "machineConfigPool", "renderedImagePushSecret", "renderedImagePushSpec"},
			"spec.machineConfigPool": {"name"},
		}},
		{APIVersion: group, Kind: kindConfig, Fields: map[string][]string{
			"":     object,
			"spec": {"baseOSExtensionsContainerImage", "config", "extensions", "fips", "kernelArguments", "kernelType", "osImageURL"},
		}},
		{APIVersion: "config.openshift.io/v1", Kind: kindVersion, Fields: map[string][]string{"": object}},
		machineconfig.APIServerKind(),
	}
}
