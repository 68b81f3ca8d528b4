# open_on BRANCH REMOTE [OPTION]...: shell text for the agent, which makes a repository of its own and prints the address.
open_on() {
	branch=$1 remote=$2
	shift 2
	printf '%s\n' "set -e
dir=\$(mktemp -d) && cd \"\$dir\"
git init --quiet --initial-branch=master
git -c user.name=a -c user.email=a@b commit --quiet --allow-empty -m x
[ '$branch' = master ] || git checkout --quiet -b '$branch'
git remote add origin '$remote'
BROWSER=echo bash /workspace/git-open $*"
}
