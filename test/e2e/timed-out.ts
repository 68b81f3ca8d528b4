/**
 * Has a command run into a timeout, with as much time as it needs to get somewhere before: how much that is, nobody knows
 * of a machine that may stall. Where it did not get there it is tried again with more.
 */
export async function timedOutBeyond<Outcome>(
  attempt: (timeoutMs: number) => Promise<Outcome>,
  gotThere: (outcome: Outcome) => Promise<boolean>,
): Promise<Outcome> {
  for (let timeoutMs = 500; ; timeoutMs *= 4) {
    const outcome = await attempt(timeoutMs);
    if (await gotThere(outcome)) return outcome;
  }
}
