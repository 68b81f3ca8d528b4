import assert from 'node:assert';
import { parse } from './driver.mjs';

const { finish, test } = await import(`${process.env.ASSAY_LIB}/assay-isolated.mjs`);

test('an answer that no parser gives', () => {
  assert.deepEqual(parse(['--a', '1']).result, { _: ['neither'], a: 'one nor two' });
});
finish();
