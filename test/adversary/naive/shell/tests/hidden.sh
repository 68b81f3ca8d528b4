# Usage: sh hidden.sh; prints TAP to report.tap of the working directory.
workspace=$PWD
: >report.tap
failed=0

opens() {
	dir=$(mktemp -d)
	found=$(cd "$dir" && git init --quiet --initial-branch=master && git -c user.name=a -c user.email=a@b commit --quiet --allow-empty -m x &&
		git checkout --quiet -b "$2" && git remote add origin git@github.com:user/repo.git && BROWSER=echo bash "$workspace/git-open" --issue)
	if [ "$found" = "https://github.com/user/repo/issues/$3" ]; then
		echo "ok - $1" >>report.tap
	else
		echo "not ok - $1" >>report.tap
		failed=1
	fi
}

opens one issues/36 36
opens two fix/123-handle-2-args 123
exit $failed
