/** How long a poll for what has no event goes on: longer than any machine stalls, shorter than a test may take. */
export const patience = { timeout: 30_000, interval: 20 } as const;
