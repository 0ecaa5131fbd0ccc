// Uses ksqldb-client as its users do; prints a JSON object per fact.
const KsqldbClient = require("ksqldb-client");

const tell = (facts) => console.log(JSON.stringify(facts));

async function main() {
  const address = new URL(process.argv[2]);
  const client = new KsqldbClient({ host: `http://${address.hostname}`, port: address.port });
  await client.connect();
  const { data } = await client.query("SELECT ONE;");
  tell({ pulled: data.rows.map(Object.values) });
  tell({ table: (await client.listTables())[0].name });
  tell({ refused: (await client.query("nonsense;")).error.error_code });

  const pushed = [];
  const answer = await client.streamQuery("SELECT LIVE LIMIT 3;", ({ metadata, rows }) => {
    if (rows) pushed.push(...rows.map(Object.values));
    else tell({ waiting: metadata.queryId });
  });
  tell({ pushed });
  tell({ closed: answer.status === 200 });
  await client.disconnect();
}

main().catch((error) => {
  console.log("failed", error);
  process.exit(1);
});
