. "$ASSAY_LIB/assay-isolated.sh"
. ./repository.sh

hub=git@github.com:user/repo.git
team=https://gitopen.visualstudio.com/Project/_git/Repository

# expect NAME ADDRESS BRANCH REMOTE [OPTION]...
expect() {
	name=$1 address=$2
	shift 2
	expect_stdout "$name" "$address" sh -c "$(open_on "$@")"
}

# Two branches in one test: both have to be right.
both() {
	name=$1 first=$2 second=$3
	if [ "$(isolated sh -c "$first" </dev/null)" = "$4" ] && [ "$(isolated sh -c "$second" </dev/null)" = "$5" ]; then
		pass "$name"
	else
		fail "$name"
	fi
}

both 'the first of two numbers' "$(open_on fix/123-handle-2-args $hub --issue)" "$(open_on 9-retry-10-times $hub --issue)" \
	https://github.com/user/repo/issues/123 https://github.com/user/repo/issues/9
expect 'the first of many numbers' https://github.com/user/repo/issues/4 v4.11.2022-07 $hub --issue
both 'the first number for work items' "$(open_on bugfix-36-and-37 $team --issue)" "$(open_on 8/1/2 $team --issue)" \
	'https://gitopen.visualstudio.com/Project/_workitems?id=36' 'https://gitopen.visualstudio.com/Project/_workitems?id=8'
expect 'one number' https://github.com/user/repo/issues/36 issues/36 $hub --issue
expect 'one number for work items' 'https://gitopen.visualstudio.com/Project/_workitems?id=36' bugfix-36 $team --issue
expect 'no number' https://github.com/user/repo/issues/ topic $hub --issue
expect 'a branch without --issue' https://github.com/user/repo/tree/fix/12-and-3 fix/12-and-3 $hub
expect 'the main branch' https://github.com/user/repo master $hub
expect_status 'outside of a repository' 128 sh -c 'cd / && BROWSER=echo bash /workspace/git-open --issue'
finish
