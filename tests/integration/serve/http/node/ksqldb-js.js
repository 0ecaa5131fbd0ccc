// Uses ksqldb-js as its users do; prints a JSON object per fact.
const Ksqldb = require("ksqldb-js");

const tell = (facts) => console.log(JSON.stringify(facts));

async function main() {
  const client = new Ksqldb({ ksqldbURL: process.argv[2] });
  const [, ...rows] = await client.pull("SELECT ONE;");
  tell({ pulled: rows });
  tell({ table: (await client.ksql("SHOW TABLES;")).tables[0].name });
  await client.pull("nonsense;").catch((error) => tell({ refused: error.error_code }));

  const pushed = [];
  const ended = new Promise((resolve) => {
    client.push("SELECT LIVE;", (line) => {
      const value = JSON.parse(line);
      if (!Array.isArray(value)) {
        tell({ waiting: value.queryId });
        return;
      }
      pushed.push(value);
      if (pushed.length === 3) resolve();
    }).then((id) => { queryId = id; });
  });
  let queryId = null;
  await ended;
  tell({ pushed });
  tell({ closed: (await client.terminate(queryId)).wasTerminated });
}

main().catch((error) => {
  console.log("failed", error);
  process.exit(1);
});
