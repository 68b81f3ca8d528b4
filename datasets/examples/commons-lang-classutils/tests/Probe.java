import java.io.BufferedReader;
import java.io.InputStreamReader;
import org.apache.commons.lang3.ClassUtils;

/** Prints the name of the class, or of what was thrown, for every line. */
public class Probe {
	public static void main(final String[] arguments) throws Exception {
		final BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
		for (String line = lines.readLine(); line != null; line = lines.readLine()) {
			String answer;
			try {
				answer = ClassUtils.getClass(Probe.class.getClassLoader(), line, false).getName();
			} catch (final Throwable thrown) {
				answer = "thrown " + thrown.getClass().getName();
			}
			System.out.println(answer);
		}
	}
}
