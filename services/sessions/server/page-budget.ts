import { createRate } from '../auth/rate.ts';
import type { Limits } from '../config.ts';

/** How many pages are answered: they need no key, so anybody may ask for any number of them. */
export interface PageBudget {
  /** Counts one page of an address. Returns why it is not answered, if it is not. */
  spend(address: string): string | undefined;
}

/**
 * Of one address in a second, whatever others ask for: enough for the probes of an orchestrator, which would otherwise take
 * this instance for dead while somebody else floods it.
 */
const probesPerSecond = 10;

export function createPageBudget(
  limits: Pick<Limits, 'pagesPerSecond' | 'pagesPerSecondPerAddress'>,
  now?: () => number,
): PageBudget {
  const { pagesPerSecond, pagesPerSecondPerAddress } = limits;
  const probes = createRate(Math.min(probesPerSecond, pagesPerSecondPerAddress), now);
  const byAddress = createRate(pagesPerSecondPerAddress, now);
  const total = createRate(pagesPerSecond, now);
  return {
    spend(address) {
      if (!byAddress.spend(address))
        return `over the limit of ${pagesPerSecondPerAddress} pages a second and address (ASSAY_LIMIT_PAGES_PER_SECOND_PER_ADDRESS)`;
      if (probes.spend(address) || total.spend('')) return undefined;
      return `over the limit of ${pagesPerSecond} pages a second (ASSAY_LIMIT_PAGES_PER_SECOND)`;
    },
  };
}
