# ISOLATED tests in sh: every program of the submission runs as another user, which sees inputs and no answers.
#
#   . "$ASSAY_LIB/assay-isolated.sh"
#   expect_stdout 'adds two numbers' 5 sh add.sh 2 3
#   expect_status 'refuses one number' 2 sh add.sh 2
#   finish
#
# Never source or run anything from the workspace but through `isolated`.

: "${ASSAY_ISOLATED:=/run/assay/isolated}" "${ASSAY_REPORTS:=.}" "${ASSAY_WORKSPACE:=/workspace}"
isolated_tests=0
isolated_failed=0
isolated_end=
: >"$ASSAY_REPORTS/report.tap.part"

# isolated PROGRAM [ARGUMENT]...: runs it as the agent's user with the streams of this shell. How it ended is in
# $isolated_end afterwards: "exited 0", "signaled 9", "timed-out", "output-limit", "not-started ...", "lost".
# ISOLATED_TIMEOUT (seconds, 10), ISOLATED_MAX_OUTPUT (bytes, 1048576) and ISOLATED_CWD change what their names say.
isolated() {
	isolated_code=0
	"$ASSAY_ISOLATED" run --timeout "${ISOLATED_TIMEOUT:-10}" --max-output "${ISOLATED_MAX_OUTPUT:-1048576}" \
		--cwd "${ISOLATED_CWD:-$ASSAY_WORKSPACE}" --status-fd 3 -- "$@" 3>"$ASSAY_REPORTS/.end" || isolated_code=$?
	isolated_end=$(cat "$ASSAY_REPORTS/.end")
	return "$isolated_code"
}

# pass NAME, fail NAME [MESSAGE]: one line of the report.
pass() {
	isolated_tests=$((isolated_tests + 1))
	isolated_line ok "$1"
}

fail() {
	isolated_tests=$((isolated_tests + 1))
	isolated_failed=$((isolated_failed + 1))
	isolated_line 'not ok' "$1"
	# What the program printed may be any bytes, and a report that is not UTF-8 is none at all.
	[ -z "${2-}" ] || printf '%s\n' "$2" | LC_ALL=C tr -c '\11\12\40-\176' '?' | sed 's/^/# /' |
		tee -a "$ASSAY_REPORTS/report.tap.part" >&2
}

isolated_line() {
	isolated_name=$(printf '%s' "$2" | tr '\n' ' ' | sed 's/[\\#]/\\&/g')
	printf '%s %s - %s\n' "$1" "$isolated_tests" "$isolated_name" | tee -a "$ASSAY_REPORTS/report.tap.part"
}

# expect_stdout NAME EXPECTED PROGRAM [ARGUMENT]...: it must exit with 0 and print just this; final newlines do not count.
expect_stdout() {
	isolated_test=$1
	isolated_expected=$2
	shift 2
	isolated "$@" </dev/null >"$ASSAY_REPORTS/.out" 2>"$ASSAY_REPORTS/.err" || :
	isolated_found=$(cat "$ASSAY_REPORTS/.out")
	if [ "$isolated_end" = 'exited 0' ] && [ "$isolated_found" = "$isolated_expected" ]; then
		pass "$isolated_test"
	else
		fail "$isolated_test" "$isolated_end; found: $isolated_found; stderr: $(head -c 1000 "$ASSAY_REPORTS/.err")"
	fi
}

# expect_status NAME CODE PROGRAM [ARGUMENT]...: it must exit with this code.
expect_status() {
	isolated_test=$1
	isolated_expected=$2
	shift 2
	isolated "$@" </dev/null >"$ASSAY_REPORTS/.out" 2>"$ASSAY_REPORTS/.err" || :
	if [ "$isolated_end" = "exited $isolated_expected" ]; then
		pass "$isolated_test"
	else
		fail "$isolated_test" "$isolated_end; stderr: $(head -c 1000 "$ASSAY_REPORTS/.err")"
	fi
}

# finish: completes the TAP report for the grader and ends the shell.
finish() {
	printf '1..%s\n' "$isolated_tests" >>"$ASSAY_REPORTS/report.tap.part"
	mv "$ASSAY_REPORTS/report.tap.part" "$ASSAY_REPORTS/report.tap"
	[ "$isolated_failed" -eq 0 ]
	exit
}
