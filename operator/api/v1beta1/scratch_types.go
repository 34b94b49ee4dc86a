package v1beta1

import "k8s.io/apimachinery/pkg/api/resource"

// Scratch configures the writable directory /tmp.
type Scratch struct {
	// size is the maximum total size of the files in /tmp, such as 256Mi. It must be greater than
	// 0. The files count towards the limit of ephemeral-storage in spec.resources, or with medium
	// Memory towards the limit of memory; size must be less than that limit. A pod that exceeds
	// size on disk is evicted. In memory, a write beyond size fails.
	// +required
	// +kubebuilder:validation:XValidation:rule="string(self).matches('^[0-9]{1,19}([.][0-9]{1,9})?([numkMGTPE]|[KMGTPE]i)?$')",message="must be a number with an optional unit, such as 256Mi or 1.5Gi"
	// +kubebuilder:validation:XValidation:rule="string(self).matches('[1-9]')",message="must be more than 0"
	Size resource.Quantity `json:"size"`

	// medium is the storage of the files: Disk (the disk of the node) or Memory (the memory of the
	// node, which is faster). Default: Disk. The files are deleted with the pod. With Memory, size
	// is subtracted from the memory limit of the Go garbage collector, unless the variable
	// GOMEMLIMIT is set.
	// +optional
	// +kubebuilder:default=Disk
	// +kubebuilder:validation:Enum=Disk;Memory
	Medium ScratchMedium `json:"medium,omitempty"`
}

// ScratchMedium is the storage of the files in /tmp.
type ScratchMedium string

const (
	// ScratchOnDisk is the disk of the node. It is the default.
	ScratchOnDisk ScratchMedium = "Disk"

	// ScratchInMemory is the memory of the node, within the memory limit of the container.
	ScratchInMemory ScratchMedium = "Memory"
)
