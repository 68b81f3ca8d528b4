import assert from 'node:assert';
import { parse } from './driver.mjs';

const { finish, test } = await import(`${process.env.ASSAY_LIB}/assay-isolated.mjs`);

test('an answer that no parser gives', () => {
  assert.deepStrictEqual(parse(['--a', '1']), { _: ['neither'], a: 'one nor two' });
});
finish();
