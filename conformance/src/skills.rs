//! Skill scenarios: does with skills what a host does, step by step, as far as the server allows.

use bowline::Client;
use bowline::skills::{Mismatch, SkillError};
use bowline::types::{SkillDescriptor, SkillFiles};

use crate::calls::Result;

/// Lists the skills without loading any.
pub(crate) async fn list(client: &Client) -> Result<Vec<SkillDescriptor>> {
    let skills = client.list_skills().await?;
    if let Some(dropped) = skills.dropped.first() {
        return Err(dropped.reason.to_string().into());
    }
    if skills.items.is_empty() {
        return Err("no skill was listed".into());
    }
    Ok(skills.items)
}

/// Loads every skill and all its files. They differ from what was listed, so loading must fail with
/// `expected`.
pub(crate) async fn expect_mismatch(client: &Client, expected: Mismatch) -> Result {
    for entry in list(client).await? {
        match load(client, &entry).await {
            Err(SkillError::NotAsListed { mismatch, .. }) if mismatch == expected => {}
            Err(error) => return Err(error.into()),
            Ok(()) => return Err(format!("{} was loaded", entry.uri).into()),
        }
    }
    Ok(())
}

async fn load(client: &Client, entry: &SkillDescriptor) -> std::result::Result<(), SkillError> {
    let skill = client.read_skill(entry).await?;
    if let SkillFiles::Listed(files) = &entry.files {
        for file in files {
            skill.read_file(&file.uri).await?;
        }
    }
    Ok(())
}
