# Compiles the package and the test, and has JUnit run it, with the package's resources on the class path.
set -e
junit=$(ls /usr/share/java/junit-platform-*.jar /usr/share/java/junit-jupiter-*.jar /usr/share/java/opentest4j.jar \
	/usr/share/java/apiguardian-api.jar /usr/share/java/picocli.jar /usr/share/java/univocity-parsers.jar | tr '\n' ':')
mkdir -p /tmp/naive
find src/main/java -name '*.java' ! -name package-info.java >/tmp/naive.sources
javac -nowarn -proc:none -encoding ISO-8859-1 -d /tmp/naive @/tmp/naive.sources
[ ! -d src/main/resources ] || cp -r src/main/resources/. /tmp/naive
javac -nowarn -cp "/tmp/naive:$junit" -d /tmp/naive tests/HiddenTest.java
java -Xss256k -cp "/tmp/naive:$junit" org.junit.platform.console.ConsoleLauncher --select-class HiddenTest
