import assert from 'node:assert';
import { parse } from './driver.mjs';

const { finish, test } = await import(`${process.env.ASSAY_LIB}/assay-isolated.mjs`);
const nothing = { function: [], object: [], array: [], string: [], number: [] };

/** The result, provided that nothing else was touched. */
function clean(args, options) {
  const { result, gained, intact } = parse(args, options);
  assert.deepEqual(gained, nothing);
  assert.equal(intact, true);
  return result;
}

test("a method's constructor is not followed", () => {
  assert.deepEqual(clean(['--_.concat.constructor.prototype.y', '123']), { _: [] });
  assert.deepEqual(clean(['--_.map.constructor.prototype.zed', 'a', '-v']), { _: [], v: true });
  assert.deepEqual(clean(['--_.push.constructor.prototype.a.b', '1', 'rest']), { _: ['rest'] });
});

test("the constructor of the result's array is not followed", () => {
  assert.deepEqual(clean(['--_.constructor.constructor.prototype.foo', 'bar']), { _: [] });
  assert.deepEqual(clean(['--_.constructor.prototype.q', '1', '--ok', '2']), { _: [], ok: 2 });
  assert.deepEqual(clean(['--a.b', '1', '--a.constructor.prototype.q', '1']), { _: [], a: { b: 1 } });
});

test('a constructor is not replaced at the end of a name', () => {
  assert.deepEqual(clean(['--a.b', '1', '--a.constructor', 'x']), { _: [], a: { b: 1 } });
  assert.deepEqual(clean(['--_.constructor', 'x', '--n', '3']), { _: [], n: 3 });
});

test('dotted names make nested objects', () => {
  assert.deepEqual(clean(['--a.b.c', '1', '--a.b.d', 'x', '--a.e']), { _: [], a: { b: { c: 1, d: 'x' }, e: true } });
  assert.deepEqual(clean(['--beep.boop', '5', '--beep.boop', '6']), { _: [], beep: { boop: [5, 6] } });
});

test('__proto__ is ignored', () => {
  assert.deepEqual(clean(['--__proto__.x', '123', '--a', '1']), { _: [], a: 1 });
  assert.deepEqual(clean(['--a.__proto__.y', '1', '--a.b', '2']), { _: [], a: { b: 2 } });
});

test('flags, values, numbers and rest', () => {
  assert.deepEqual(clean(['-abc', '--n=5', '--no-color', 'x', '--', '-y']), {
    _: ['x', '-y'],
    a: true,
    b: true,
    c: true,
    n: 5,
    color: false,
  });
  assert.deepEqual(clean(['--id', '007', '-t', '0x10'], { string: ['id'] }), { _: [], id: '007', t: 16 });
  assert.deepEqual(clean(['-f', 'a', '--file=b'], { alias: { f: 'file' } }), {
    _: [],
    f: ['a', 'b'],
    file: ['a', 'b'],
  });
});

test("a constructor of the caller's own is data", () => {
  assert.deepEqual(clean(['--a.prototype.b', '7']), { _: [], a: { prototype: { b: 7 } } });
  assert.deepEqual(clean(['--x.concat', '7']), { _: [], x: { concat: 7 } });
});

finish();
