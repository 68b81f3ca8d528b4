import { TestRole } from '../../../gen/assay/v1/types_pb.js';
import type { RoleName } from './verification-schema.ts';

/** The roles of `sample.yaml` as the API names them. */
export const testRoles: Readonly<Record<RoleName, TestRole>> = {
  fail_to_pass: TestRole.FAIL_TO_PASS,
  pass_to_pass: TestRole.PASS_TO_PASS,
  sentinel_fail: TestRole.SENTINEL_FAIL,
};
