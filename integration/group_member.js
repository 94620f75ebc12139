// One kafkajs member of a group: node group_member.js <bootstrap> <group> <topic>; prints every value and assignment,
// and leaves its group at SIGTERM.
'use strict'

const { Kafka, logLevel } = require('kafkajs')

async function main() {
  const [bootstrap, group, topic] = process.argv.slice(2)
  const kafka = new Kafka({ clientId: 'member', brokers: [bootstrap], logLevel: logLevel.NOTHING, retry: { initialRetryTime: 100, retries: 20 } })
  const consumer = kafka.consumer({ groupId: group, sessionTimeout: 6000, heartbeatInterval: 500, rebalanceTimeout: 20000 })
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    const mine = (payload.memberAssignment[topic] || []).slice().sort()
    process.stdout.write(`!assigned ${mine.join(',')}\n`)
  })
  process.on('SIGTERM', async () => {
    await consumer.disconnect()
    process.exit(0)
  })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({
    autoCommitInterval: 200,
    eachMessage: async ({ message }) => process.stdout.write(`${message.value}\n`),
  })
}

main().catch(error => {
  console.error(error)
  process.exit(1)
})
