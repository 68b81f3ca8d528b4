import type { BrokerConnection } from './broker.ts';
import { createRetryPolicy } from './retry-policy.ts';
import { storeUnavailable } from './store-error.ts';

/** Makes a call that may be made twice: again if its answer is lost, or if the broker is temporarily unavailable. */
export async function repeatable<T>(broker: BrokerConnection, call: () => Promise<T>): Promise<T> {
  const retry = createRetryPolicy();
  for (;;) {
    await broker.whenConnected();
    try {
      return await broker.answered(call);
    } catch (error) {
      if (!(await retry.next(error))) throw error;
    }
  }
}

/** The same, for calls whose failure of any kind means STORE_UNAVAILABLE. */
export async function answered<T>(broker: BrokerConnection, call: () => Promise<T>): Promise<T> {
  try {
    return await repeatable(broker, call);
  } catch (error) {
    throw storeUnavailable(error);
  }
}
