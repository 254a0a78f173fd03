# What the kinds of packages share. Sourced by scripts/packaging/kinds/*, which scripts/packaging/package runs with these set:
#   dist, build, work   folders: for packages, the built gpux, and intermediate files
#   version, revision   of gpux
#   SOURCE_DATE_EPOCH   the time of every file in a package
#   packaging_python    with the packages of scripts/requirements-package.txt
# shellcheck shell=bash
: "${dist:?is set by scripts/packaging/package}" "${build:?}" "${work:?}" "${version:?}" "${revision:?}" "${SOURCE_DATE_EPOCH:?}"
: "${packaging_python:?}"
export architecture
architecture=$(dpkg --print-architecture)
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

# stage FOLDER PREFIX: what `cmake --install` copies, stripped, with the bill of materials and the notices
stage() {
  rm -rf "$1"
  DESTDIR=$1 cmake --install "$build" --prefix "$2" --strip >/dev/null
  local documents=$1$2/share/doc/gpux
  install -D -m 644 "$work/gpux.cdx.json" "$documents/gpux.cdx.json"
  install -m 644 "$work/third-party-notices.txt" "$documents"
}

# tar_of FOLDER NAME...: a reproducible archive on standard output
tar_of() {
  local folder=$1
  shift
  tar -C "$folder" --sort=name --format=posix --pax-option='exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime' \
    --mtime="@$SOURCE_DATE_EPOCH" --clamp-mtime --numeric-owner "${tar_owner[@]}" -c "$@"
}
tar_owner=(--owner=0 --group=0)

# claim TEXT COMMAND...: one check; its output is kept in the log
claim() {
  local text=$1 code
  shift
  echo "== $text"
  # Not as a condition: bash would ignore failures inside of a function.
  set +e
  (set -e; "$@")
  code=$?
  set -e
  if [ $code = 0 ]; then echo "passed: $text"; else echo "failed: $text (exit $code)"; fi
}

# same_bytes_again KIND FILE...: builds the kind once more and compares the files
same_bytes_again() {
  local kind=$1 before
  shift
  before=$(cd "$dist" && sha256sum "$@")
  "$root/scripts/packaging/kinds/$kind" build || return 1
  (cd "$dist" && sha256sum "$@") | diff <(echo "$before") -
}

try() { "$root/scripts/packaging/try-in-chroot" "$@"; }
