#!/usr/bin/env bash
# Publishes what make release has written to dist/: signs the checksums, which cover every
# other file, and pushes the images and the chart to the registry that install.yaml names.
#
#   tools/publish.sh KEY
#
# KEY is a private key of OpenSSH, or a public one whose private key an agent has. crane and
# helm have to be logged in to the registry. Set HELM_FLAGS=--plain-http for one without TLS.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PWD/.cache/bin:$PATH

[ $# -eq 1 ] || { echo "usage: tools/publish.sh KEY" >&2; exit 2; }
key=$(realpath "$1")
cd dist
sha256sum --check --quiet checksums.txt
rm -f checksums.txt.sig
ssh-keygen -Y sign -f "$key" -n goless-release checksums.txt

chart=$(echo goless-*.tgz)
version=v${chart#goless-}
version=${version%.tgz}
while read -r image; do
  name=${image%@*}
  pushed=$(crane push "images/${name##*/}" "$name:$version")
  [ "${pushed#*@}" = "${image#*@}" ] || { echo "$pushed is not what install.yaml names, $image" >&2; exit 1; }
done <images.txt
# shellcheck disable=SC2086 # there may be several flags
helm push "$chart" "oci://${name%/*}/charts" ${HELM_FLAGS-}
