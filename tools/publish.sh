#!/usr/bin/env bash
# Publishes what make release has written to dist/: signs the checksums, which cover every
# other file, and pushes the images and the chart to the registry that install.yaml names.
#
#   tools/publish.sh KEY
#
# KEY is a private key of OpenSSH, or a public one whose private key an agent has. crane and
# helm have to be logged in to the registry. Set HELM_FLAGS=--plain-http for one without TLS.
# What is pushed already is left as it is, so that this can be run again when it was interrupted.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PWD/.cache/bin:$PATH

fail() { echo "tools/publish.sh: $*" >&2; exit 1; }

[ $# -eq 1 ] || { echo "usage: tools/publish.sh KEY" >&2; exit 2; }
key=$(realpath "$1")
[ -f dist/checksums.txt ] || fail "there is no release in dist/: run make release"
cd dist
sha256sum --check --quiet checksums.txt
chart=$(echo goless-*.tgz)
version=v${chart#goless-}
version=${version%.tgz}

# Whoever has pulled a version expects the same under its name for ever.
while IFS=@ read -r name digest; do
  published=$(crane digest "$name:$version" 2>/dev/null) || continue
  [ "$published" = "$digest" ] || fail "$name:$version is published already, as $published: choose the next version"
done <images.txt

rm -f checksums.txt.sig
ssh-keygen -Y sign -f "$key" -n goless-release checksums.txt
while IFS=@ read -r name digest; do
  pushed=$(crane push "images/${name##*/}" "$name:$version")
  [ "${pushed#*@}" = "$digest" ] || fail "$pushed is not what install.yaml names, $name@$digest"
done <images.txt
# shellcheck disable=SC2086 # there may be several flags
helm push "$chart" "oci://$(sed -n '1s|/[^/]*@.*||p' images.txt)/charts" ${HELM_FLAGS-}
