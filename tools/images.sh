#!/usr/bin/env bash
# Builds all images for the platforms in PLATFORMS, such as linux/amd64,linux/arm64, and
# pushes them to the registry in KO_DOCKER_REPO. It prints a line IMPORTPATH=REFERENCE for
# each image. The programs report VERSION as their version. Arguments are passed to ko
# build. make images and make release run this script.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ -z "${KO_DOCKER_REPO-}" ]; then
  echo "KO_DOCKER_REPO is not set: set it to a registry with push permission, such as KO_DOCKER_REPO=localhost:5000" >&2
  exit 1
fi

commit=$(git describe --always --abbrev=40 --exclude='*' --dirty 2>/dev/null || echo unknown)
build() { ko build --base-import-paths --ldflags="-s -w -X main.version=v${VERSION#v} -X main.commit=$commit" "$@"; }

for path in operator/cmd/goless-operator operator/cmd/goless-activator runtime/cmd/launch trigger/cmd/goless-triggers trigger/cmd/deliver trigger/cmd/consume; do
  reference=$(build --platform="$PLATFORMS" "$@" "./$path")
  echo "goless.io/$path=$reference"
done

# The kodata of the builder image is specific to a platform, so the image of each platform
# is built separately.
for platform in ${PLATFORMS//,/ }; do
  make kodata ARCH="${platform#linux/}" >&2
  manifests+=(--manifest "$(build --platform="$platform" "$@" ./builder/cmd/builder)")
done
reference=$(crane index append "${manifests[@]}" --tag "$KO_DOCKER_REPO/builder:latest")
echo "goless.io/builder/cmd/builder=$reference"
make kodata >&2
