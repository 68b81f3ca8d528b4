/** Orders versions by their numbers and words: 1.10.0 after 1.9.2, 2.0.0 after 2.0.0-rc1. */
export function compareVersions(a: string, b: string): number {
  const [coreA, preA] = split(a);
  const [coreB, preB] = split(b);
  const core = compareParts(coreA, coreB);
  if (core !== 0) return core;
  // Without a part after the dash it is the finished one.
  if (preA.length === 0 || preB.length === 0) return preB.length - preA.length;
  return compareParts(preA, preB);
}

function split(version: string): [string[], string[]] {
  const [core = '', ...rest] = version.split('-');
  const pre = rest.join('-');
  return [core.split('.'), pre === '' ? [] : pre.split('.')];
}

function compareParts(a: readonly string[], b: readonly string[]): number {
  for (let index = 0; index < Math.max(a.length, b.length); index += 1) {
    const [left = '', right = ''] = [a[index], b[index]];
    if (left === right) continue;
    const numbers = /^\d+$/.test(left) && /^\d+$/.test(right);
    if (numbers && Number(left) !== Number(right)) return Number(left) - Number(right);
    if (!numbers) return left < right ? -1 : 1;
  }
  return 0;
}
