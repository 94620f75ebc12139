// One command for kafkajs: JSON on stdin, its answer as JSON on stdout. Keys, values and header values are base64 or null.
//
// The consumer of kafkajs always joins a group; `consume` therefore uses the same cluster, connection and decoder that
// its consumer uses and fetches one partition from its start.
'use strict'

const fs = require('fs')
const { Kafka, CompressionTypes, CompressionCodecs, logLevel } = require('kafkajs')
const Cluster = require('kafkajs/src/cluster')
const socketFactory = require('kafkajs/src/network/socketFactory')
const { createLogger } = require('kafkajs/src/loggers')
const consoleLogger = require('kafkajs/src/loggers/console')
const lz4 = require('lz4-napi')
const zstd = require('@bokuweb/zstd-wasm')

CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: encoder => lz4.compressFrame(encoder.buffer),
  decompress: buffer => lz4.decompressFrame(buffer),
})
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async encoder => Buffer.from(zstd.compress(encoder.buffer, 3)),
  decompress: async buffer => Buffer.from(zstd.decompress(buffer)),
})

const TYPES = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
}
const decode = text => (text === null ? null : Buffer.from(text, 'base64'))
const encode = bytes => (bytes === null || bytes === undefined ? null : Buffer.from(bytes).toString('base64'))

function headersOf(pairs) {
  const headers = {}
  for (const [name, value] of pairs) {
    const bytes = decode(value)
    if (name in headers) headers[name] = [].concat(headers[name], [bytes])
    else headers[name] = bytes
  }
  return headers
}

function pairsOf(headers) {
  const pairs = []
  for (const [name, value] of Object.entries(headers || {})) {
    for (const one of Array.isArray(value) ? value : [value]) pairs.push([name, encode(one)])
  }
  return pairs
}

async function produce(kafka, { topic, messages, codec }) {
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
  try {
    const answers = await producer.send({
      topic,
      acks: -1,
      compression: TYPES[codec],
      messages: messages.map(({ key, value, headers, timestamp }) => ({
        partition: 0,
        key: decode(key),
        value: decode(value),
        headers: headersOf(headers),
        ...(timestamp === null ? {} : { timestamp }),
      })),
    })
    return answers[0]
  } finally {
    await producer.disconnect()
  }
}

async function consume(_kafka, { bootstrap, topic, count }) {
  const logger = createLogger({ level: logLevel.ERROR, logCreator: consoleLogger })
  const options = { logger, socketFactory: socketFactory(), brokers: [bootstrap], clientId: 'test', connectionTimeout: 5000 }
  const cluster = new Cluster({ ...options, enforceRequestTimeout: true, metadataMaxAge: 300000, allowAutoTopicCreation: false, retry: {} })
  await cluster.connect()
  try {
    await cluster.addTargetTopic(topic)
    const { leader } = cluster.findTopicPartitionMetadata(topic)[0]
    const broker = await cluster.findBroker({ nodeId: String(leader) })
    const received = []
    let next = '0'
    for (let round = 0; received.length < count && round < 60; round++) {
      const partitions = [{ partition: 0, currentLeaderEpoch: -1, fetchOffset: next, maxBytes: 1048576 }]
      const { responses } = await broker.fetch({ maxWaitTime: 500, topics: [{ topic, partitions }] })
      const wanted = responses.flatMap(r => r.partitions).flatMap(p => p.messages).filter(m => BigInt(m.offset) >= BigInt(next))
      for (const m of wanted) {
        received.push({ offset: m.offset, key: encode(m.key), value: encode(m.value), headers: pairsOf(m.headers), timestamp: m.timestamp })
        next = String(BigInt(m.offset) + 1n)
      }
    }
    return received
  } finally {
    await cluster.disconnect()
  }
}

// Calls methods of the admin client in order; an error is answered as {error: its Kafka name or text}.
async function admin(kafka, { calls }) {
  const client = kafka.admin()
  await client.connect()
  const answers = []
  try {
    for (const [method, argument] of calls) {
      try {
        const answer = await (Array.isArray(argument) ? client[method](...argument) : client[method](argument))
        answers.push(answer === undefined ? null : answer)
      } catch (error) {
        const cause = (error.errors && error.errors[0]) || error
        answers.push({ error: cause.type || cause.message })
      }
    }
    return answers
  } finally {
    await client.disconnect()
  }
}

async function main() {
  await zstd.init()
  const request = JSON.parse(fs.readFileSync(0, 'utf8'))
  const kafka = new Kafka({ clientId: 'test', brokers: [request.bootstrap], logLevel: logLevel.NOTHING, connectionTimeout: 5000 })
  const answer = await { produce, consume, admin }[request.command](kafka, request)
  process.stdout.write(JSON.stringify(answer))
}

main().catch(error => {
  console.error(error)
  process.exit(1)
})
