import { vi } from 'vitest';

/** Waits until what it is given does not throw any more. Tests that run side by side have no expect.poll. */
export function eventually<Found>(look: () => Found | Promise<Found>): Promise<Found> {
  return vi.waitFor(look, { timeout: 120_000, interval: 50 });
}
