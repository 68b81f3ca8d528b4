import type { KV, KvEntry } from '@nats-io/kv';

/** Says of the entries of a watch, in their order, when all that was there at its beginning has come. */
export interface FirstPass {
  /** Nothing was there. */
  readonly empty: boolean;
  isComplete(entry: KvEntry): boolean;
}

/**
 * To be asked for before the watch begins. The broker counts down what is still to come, but a record that is replaced
 * between the making of a watch and its first entry stays in that count, which then never comes to nothing. So the last
 * revision that there was counts too: it comes, or one that replaced a record later.
 */
export async function beginFirstPass(kv: KV): Promise<FirstPass> {
  const { values, streamInfo } = await kv.status();
  const last = streamInfo.state.last_seq;
  return { empty: values === 0, isComplete: ({ delta, revision }) => delta === 0 || revision >= last };
}
