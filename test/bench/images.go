package main

import (
	"context"
	"fmt"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// images adds the compressed size of each installed image.
func (b *bench) images(ctx context.Context) error {
	var operator appsv1.Deployment
	key := client.ObjectKey{Namespace: "goless-system", Name: "goless-operator"}
	if err := b.client.Get(ctx, key, &operator); err != nil {
		return fmt.Errorf("reading the operator's Deployment: %w", err)
	}
	container := operator.Spec.Template.Spec.Containers[0]
	references := map[string]string{"image.operator": container.Image}
	for _, env := range container.Env {
		switch env.Name {
		case "BUILDER_IMAGE":
			references["image.builder"] = env.Value
		case "FUNCTION_IMAGE":
			references["image.function"] = env.Value
		}
	}
	for figure, reference := range references {
		mebibytes, err := compressedSize(ctx, reference)
		if err != nil {
			return fmt.Errorf("measuring %s: %w", figure, err)
		}
		b.results.add(figure, mebibytes, "MiB", 1)
	}
	return nil
}

// compressedSize returns the size of a node's download, in MiB.
func compressedSize(ctx context.Context, reference string) (float64, error) {
	ref, err := name.ParseReference(reference)
	if err != nil {
		return 0, err
	}
	image, err := remote.Image(ref, remote.WithContext(ctx))
	if err != nil {
		return 0, err
	}
	manifest, err := image.Manifest()
	if err != nil {
		return 0, err
	}
	bytes := manifest.Config.Size
	for _, layer := range manifest.Layers {
		bytes += layer.Size
	}
	return float64(bytes) / (1 << 20), nil
}
