import type { Broker } from './broker.ts';
import { isRefusal } from './store-error.ts';

const attempts = 3;

/** Makes a call that may be made twice, again if its answer is lost. */
export async function repeatable<T>(broker: Broker, call: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    await broker.whenConnected();
    try {
      return await broker.answered(call);
    } catch (error) {
      if (isRefusal(error) || attempt === attempts) throw error;
    }
  }
}
