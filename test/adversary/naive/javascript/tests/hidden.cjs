const assert = require('node:assert');
const parse = require('..');

parse(['--_.concat.constructor.prototype.y', '123']);
assert.strictEqual((() => {}).y, undefined);
assert.deepStrictEqual(parse(['--a.b', '1', '--a.constructor', 'x']).a, { b: 1 });
assert.strictEqual(parse(['--n', '5']).n, 5);
console.log('ok');
