import {
  create,
  type DescFile,
  type DescService,
  fromBinary,
  type MessageInitShape,
  toBinary,
} from '@bufbuild/protobuf';
import { FileDescriptorProtoSchema } from '@bufbuild/protobuf/wkt';
import { Code, type ServiceImpl } from '@connectrpc/connect';
import {
  type ServerReflection,
  type ServerReflectionRequest,
  ServerReflectionRequestSchema,
  ServerReflectionResponseSchema,
} from '../../../gen/grpc/reflection/v1/reflection_pb.js';
import {
  ServerReflectionRequestSchema as AlphaRequestSchema,
  ServerReflectionResponseSchema as AlphaResponseSchema,
  type ServerReflection as ServerReflectionAlpha,
} from '../../../gen/grpc/reflection/v1alpha/reflection_pb.js';

type Answer = NonNullable<MessageInitShape<typeof ServerReflectionResponseSchema>['messageResponse']>;

export interface ReflectionServices {
  readonly v1: ServiceImpl<typeof ServerReflection>;
  readonly v1alpha: ServiceImpl<typeof ServerReflectionAlpha>;
}

/** What this server serves, from the generated descriptors. */
export function createReflectionServices(services: readonly DescService[]): ReflectionServices {
  const answer = createAnswer(services);
  const respond = (request: ServerReflectionRequest) =>
    create(ServerReflectionResponseSchema, {
      validHost: request.host,
      originalRequest: request,
      messageResponse: answer(request.messageRequest),
    });
  return {
    v1: {
      async *serverReflectionInfo(requests) {
        for await (const request of requests) yield respond(request);
      },
    },
    v1alpha: {
      async *serverReflectionInfo(requests) {
        for await (const request of requests) {
          // The two versions differ in their names only: the bytes are the same.
          const same = fromBinary(ServerReflectionRequestSchema, toBinary(AlphaRequestSchema, request));
          yield fromBinary(AlphaResponseSchema, toBinary(ServerReflectionResponseSchema, respond(same)));
        }
      },
    },
  };
}

function createAnswer(
  services: readonly DescService[],
): (request: ServerReflectionRequest['messageRequest']) => Answer {
  const files = withDependencies(services.map(({ file }) => file));
  const symbols = symbolTable(files.values());
  return (request) => {
    switch (request.case) {
      case 'listServices':
        return {
          case: 'listServicesResponse',
          value: { service: services.map(({ typeName }) => ({ name: typeName })) },
        };
      case 'fileByFilename':
        return fileAnswer(files.get(request.value), request.value);
      case 'fileContainingSymbol':
        return fileAnswer(symbols.get(request.value.replace(/^\./, '')), request.value);
      case 'allExtensionNumbersOfType':
        return { case: 'allExtensionNumbersResponse', value: { baseTypeName: request.value, extensionNumber: [] } };
      case 'fileContainingExtension':
        return notFound('this server has no extensions');
      case undefined:
        return { case: 'errorResponse', value: { errorCode: Code.InvalidArgument, errorMessage: 'nothing was asked' } };
    }
  };
}

function fileAnswer(file: DescFile | undefined, name: string): Answer {
  if (file === undefined) return notFound(`unknown: ${name.slice(0, 256)}`);
  return {
    case: 'fileDescriptorResponse',
    value: { fileDescriptorProto: [file, ...withDependencies(file.dependencies).values()].map(bytesOf) },
  };
}

function notFound(errorMessage: string): Answer {
  return { case: 'errorResponse', value: { errorCode: Code.NotFound, errorMessage } };
}

function bytesOf(file: DescFile): Uint8Array {
  return toBinary(FileDescriptorProtoSchema, file.proto);
}

function withDependencies(roots: readonly DescFile[]): Map<string, DescFile> {
  const found = new Map<string, DescFile>();
  const visit = (file: DescFile): void => {
    if (found.has(file.proto.name)) return;
    found.set(file.proto.name, file);
    file.dependencies.forEach(visit);
  };
  roots.forEach(visit);
  return found;
}

function symbolTable(files: Iterable<DescFile>): Map<string, DescFile> {
  const symbols = new Map<string, DescFile>();
  for (const file of files) {
    for (const service of file.services) {
      symbols.set(service.typeName, file);
      for (const method of service.methods) symbols.set(`${service.typeName}.${method.name}`, file);
    }
    const visit = (message: DescFile['messages'][number]): void => {
      symbols.set(message.typeName, file);
      message.nestedMessages.forEach(visit);
      for (const nested of message.nestedEnums) symbols.set(nested.typeName, file);
    };
    file.messages.forEach(visit);
    for (const top of file.enums) symbols.set(top.typeName, file);
  }
  return symbols;
}
