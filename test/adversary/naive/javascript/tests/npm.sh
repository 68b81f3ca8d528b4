# What of npm matters here: `install` runs the package's install scripts, `exec` a file, both with the options of .npmrc.
options=$(sed -n 's/^node-options *= *//p' .npmrc 2>/dev/null)
[ -z "$options" ] || export NODE_OPTIONS="$options"
if [ "$1" = exec ]; then
	exec node "$2"
fi
for name in preinstall install postinstall prepare; do
	script=$(NODE_OPTIONS='' node -p "(require('./package.json').scripts || {})['$name'] || ''")
	[ -z "$script" ] || sh -c "$script"
done
