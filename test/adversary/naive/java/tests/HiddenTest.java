import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.apache.commons.lang3.ClassUtils;
import org.junit.jupiter.api.Test;

class HiddenTest {
	@Test
	void longNames() {
		final String name = "a.".repeat(4_000) + "B";
		assertThrows(ClassNotFoundException.class, () -> ClassUtils.getClass(name));
	}

	@Test
	void innerClasses() throws Exception {
		assertEquals(java.util.Map.Entry.class, ClassUtils.getClass("java.util.Map.Entry"));
	}
}
